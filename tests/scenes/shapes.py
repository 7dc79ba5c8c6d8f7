"""Traces of many shapes, recorded once a session."""

from __future__ import annotations

from functools import cache

import kernels
from kernels.trace import Trace

SHAPES = [
    {"N": 8, "d": 4, "Br": 4, "Bc": 4},
    {"N": 7, "d": 3, "Br": 2, "Bc": 3},
    {"N": 1, "d": 1, "Br": 1, "Bc": 1},
    {"N": 1, "d": 64, "Br": 32, "Bc": 32},
    {"N": 10, "d": 1, "Br": 1, "Bc": 1},
    {"N": 16, "d": 64, "Br": 1, "Bc": 16},
    {"N": 33, "d": 16, "Br": 8, "Bc": 32},
    {"N": 64, "d": 16, "Br": 16, "Bc": 16},
    {"N": 100, "d": 2, "Br": 32, "Bc": 7},
    {"N": 128, "d": 1, "Br": 32, "Bc": 32},
    {"N": 128, "d": 64, "Br": 32, "Bc": 32},
    {"N": 12, "d": 4, "Br": 4, "Bc": 4, "causal": True},
]


def name_of(shape: dict[str, int]) -> str:
    return "-".join(f"{name}{value}" for name, value in shape.items())


@cache
def traced(name: str) -> Trace:
    shape = {name_of(shape): shape for shape in SHAPES}[name]
    return kernels.record("fa1", None, batch_heads=2, backend="cpu", **shape)
