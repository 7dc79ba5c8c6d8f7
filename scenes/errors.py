"""What goes wrong when a film is made."""

from __future__ import annotations

from kernels.errors import KernelsError


class SceneError(KernelsError):
    """A film cannot be made from this trace, or not in this place."""
