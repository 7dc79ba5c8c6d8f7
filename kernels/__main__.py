"""``python -m kernels``."""

from kernels.cli import main

main()
