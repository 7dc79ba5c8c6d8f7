"""Of each line that stores, the reads whose values flow into what is stored: the backward slices of a source."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from kernels.launch.functions import Source
from kernels.launch.scopes import scopes
from kernels.launch.syntax import parse
from kernels.launch.walk import Origin, Walk

Key = tuple[int, str | None]


def made_of_lines(source: Source) -> Mapping[Key, frozenset[Key]]:
    """For each line and array that something is stored to, the lines and arrays of the reads that it is made of.

    A name is that of a kernel's parameter, a ``__shared__`` variable or what a HOLD names; None stands for whatever
    array is touched on that line. Values flow through variables, functions of the source, casts, calls, and ``?:`` with
    its condition; not through subscripts, and not from what an ``if`` or a loop asks.
    """
    return {
        key: frozenset((o.line, o.name) for o in found) for key, found in origins_of_lines(source).items()
    }


def origins_of_lines(source: Source) -> Mapping[Key, frozenset[Origin]]:
    """As `made_of_lines`, with whether a value may have come from another lane of the warp."""
    return _origins(source.text)


@lru_cache(maxsize=16)
def _origins(text: str) -> Mapping[Key, frozenset[Origin]]:
    parsed = parse(text)
    stored = Walk(parsed, scopes(parsed)).stored
    # A value that came both ways came from any lane: its own is one of them.
    return MappingProxyType(
        {
            key: frozenset(o for o in flow if o.via_warp or o._replace(via_warp=True) not in flow)
            for key, flow in stored.items()
        }
    )
