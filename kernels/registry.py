"""Finding kernels by name: each ``.cu`` file beside this one, or a declaration of the user's own by its path."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

from kernels.declaration import Kernel
from kernels.errors import ParameterError

_HERE = Path(__file__).parent


def kernel_names() -> tuple[str, ...]:
    """The names of the kernels that come with this package."""
    return tuple(sorted(source.stem for source in _HERE.glob("*.cu")))


def find_kernel(name: str) -> Kernel:
    """The kernel called `name`, or the one a ``.py`` file declares as ``KERNEL``.

    Raises ParameterError if there is none.
    """
    if name in kernel_names():
        return _declared(importlib.import_module(f"kernels.{name}").KERNEL, name)
    path = Path(name)
    if path.suffix == ".py" and path.is_file():
        spec = importlib.util.spec_from_file_location(f"kernel_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            raise ParameterError(f"{path} cannot be imported: {error}") from error
        return _declared(getattr(module, "KERNEL", None), name)
    raise ParameterError(
        f"there is no kernel {name!r}: choose one of {', '.join(kernel_names())}, or give the .py file of a declaration"
    )


def _declared(found: object, name: str) -> Kernel:
    if not isinstance(found, Kernel):
        raise ParameterError(f"{name} declares no KERNEL: assign it a kernels.declaration.Kernel")
    return found
