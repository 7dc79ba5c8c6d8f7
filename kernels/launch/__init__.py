"""What runs a plain ``.cu`` file: its source read, its arguments settled, compiled and launched on a GPU or a CPU."""
