"""Plain kernels as users write them, each with its truth in NumPy and launches to try it with.

``<name>.cu`` is the kernel. ``<name>.py`` beside it has ``truth(**arguments)``, which takes what the kernel takes, by
name, arrays as they are before the launch, and gives what it should write in float64; and ``EXAMPLES``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.errors import ParameterError

Array = npt.NDArray[Any]
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Example:
    """A launch as the command line says it: ``--kernel gemm<16> --grid 4,4 --block 16,16 A=normal:64,64 …``.

    `arguments` are the words by parameter; `shared` is bytes of dynamic shared memory.
    """

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    arguments: Mapping[str, str]
    shared: int = 0


@dataclass(frozen=True)
class Exhibit:
    """A kernel of the gallery: its source, what it should compute, and launches of it."""

    name: str
    source: Path
    truth: Callable[..., Mapping[str, npt.NDArray[np.float64]]]
    examples: tuple[Example, ...]


def words(**arguments: str) -> Mapping[str, str]:
    """The arguments of an example, in the kernel's order."""
    return MappingProxyType(arguments)


def names() -> tuple[str, ...]:
    """The names of the kernels in the gallery."""
    return tuple(sorted(source.stem for source in _HERE.glob("*.cu")))


def find(name: str) -> Exhibit:
    """The kernel called `name`; ParameterError if there is none."""
    if name not in names():
        raise ParameterError(f"the gallery has no {name!r}: choose one of {', '.join(names())}")
    module = importlib.import_module(f"kernels.gallery.{name}")
    return Exhibit(name, _HERE / f"{name}.cu", module.truth, module.EXAMPLES)
