"""The picture: a vocabulary of mobjects and animations, and the films that play a trace with it."""
