"""Traces of many shapes of all kernels, recorded once a session."""

from __future__ import annotations

from functools import cache

import kernels
from kernels.trace import Trace
from scenes.make import scene_for
from scenes.score import Score

Shape = tuple[str, dict[str, int]]

SMALL: Shape = "fa1", {"N": 8, "d": 4, "Br": 4, "Bc": 4}
RAGGED: Shape = "fa1", {"N": 7, "d": 3, "Br": 2, "Bc": 3}
TINY: Shape = "fa1", {"N": 1, "d": 1, "Br": 1, "Bc": 1}
LONG: Shape = "fa1", {"N": 64, "d": 16, "Br": 16, "Bc": 16}
FA2: Shape = "fa2", {"Nq": 7, "Nk": 5, "d": 3, "Br": 3, "Bc": 2}
MASKED: Shape = "fa2", {"Nq": 9, "Nk": 6, "d": 2, "Br": 3, "Bc": 2, "causal": 1}
SPLITS: Shape = "flash_decoding", {"Nq": 3, "Nk": 11, "d": 2, "Br": 2, "Bc": 2, "splits": 4}
MASKED_SPLITS: Shape = (
    "flash_decoding",
    {"Nq": 2, "Nk": 6, "d": 2, "Br": 1, "Bc": 2, "splits": 2, "causal": 1},
)
SOFTMAX: Shape = "online_softmax", {"rows": 2, "N": 11, "b": 4}

SHAPES = [
    SMALL,
    RAGGED,
    TINY,
    ("fa1", {"N": 1, "d": 64, "Br": 32, "Bc": 32}),
    ("fa1", {"N": 16, "d": 64, "Br": 1, "Bc": 16}),
    LONG,
    ("fa1", {"N": 100, "d": 2, "Br": 32, "Bc": 7}),
    ("fa1", {"N": 128, "d": 64, "Br": 32, "Bc": 32}),
    ("fa1", {"N": 6, "d": 2, "Br": 2, "Bc": 2, "causal": 1}),
    ("fa1", {"N": 3, "d": 4, "Br": 32, "Bc": 7, "causal": 1}),
    FA2,
    MASKED,
    ("fa2", {"Nq": 33, "Nk": 100, "d": 32, "Br": 32, "Bc": 16}),
    ("fa2", {"Nq": 33, "Nk": 9, "d": 8, "Br": 2, "Bc": 16}),
    SPLITS,
    MASKED_SPLITS,
    ("flash_decoding", {"Nq": 1, "Nk": 128, "d": 64, "Br": 1, "Bc": 32, "splits": 3}),
    SOFTMAX,
    ("online_softmax", {"rows": 1, "N": 1, "b": 1}),
    ("online_softmax", {"rows": 3, "N": 128, "b": 32}),
    ("online_softmax", {"rows": 70, "N": 16, "b": 1}),
]


def name_of(shape: Shape) -> str:
    kernel, params = shape
    return "-".join([kernel, *(f"{name}{value}" for name, value in params.items())])


def traced(shape: Shape) -> Trace:
    return _traced(name_of(shape))


@cache
def _traced(name: str) -> Trace:
    kernel, params = {name_of(shape): shape for shape in SHAPES}[name]
    heads = {} if kernel == "online_softmax" else {"batch_heads": 2}
    return kernels.record(kernel, None, backend="cpu", **params, **heads)


def score_of(trace: Trace) -> Score:
    return scene_for(trace.kernel).score
