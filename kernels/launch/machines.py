"""What runs plain kernels: ``cupy`` on a GPU, ``cpu`` anywhere; both take the very same file."""

from __future__ import annotations

import importlib

from kernels.errors import BackendError, ParameterError
from kernels.launch.request import Backend

BACKENDS = ("auto", "cupy", "cpu")
_MODULES = {"cupy": "kernels.launch.gpu", "cpu": "kernels.launch.cpu"}


def find_backend(name: str) -> Backend:
    """The backend called `name`; ``auto`` is the GPU if there is one, else the CPU.

    Raises ParameterError for another name, BackendError if the backend cannot work here.
    """
    if name not in BACKENDS:
        raise ParameterError(f"backend={name!r}: must be one of {', '.join(BACKENDS)}")
    if name == "auto":
        try:
            return _open("cupy")
        except BackendError:
            return _open("cpu")
    return _open(name)


def _open(name: str) -> Backend:
    backend: Backend = importlib.import_module(_MODULES[name]).open_backend()
    return backend
