"""Markdown extensions of the site, each importable by its name: formulas, the player, and tables taken from a trace."""
