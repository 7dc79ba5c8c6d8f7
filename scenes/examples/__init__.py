"""Scenes of something else, told with the vocabulary of the films."""
