"""The pages: their blocks, the built site, and the player in a real Chromium."""
