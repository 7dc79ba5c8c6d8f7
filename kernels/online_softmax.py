"""Online softmax: the declaration of ``online_softmax.cu``, and the softmax it must compute, by definition."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kernels.declaration import (
    Array,
    Arrays,
    Kernel,
    Launch,
    Moment,
    Parameter,
    Params,
    Slot,
    StepKind,
    Truth,
)
from kernels.layout import Clear, Compute, Load, Store, Update

Vector = npt.NDArray[np.floating]


def _derive(params: Params) -> Mapping[str, int]:
    return {"T": ceil(params["N"] / params["b"]), "passes": 2, "one": 1}


def _make_inputs(params: Params, seed: int) -> Arrays:
    """Normal numbers of one decimal; in row 0 the running max moves at the second tile, where there is one."""
    rng = np.random.default_rng(seed)
    b = params["b"]
    for _ in range(1000):
        x = (2 * rng.normal(size=(params["rows"], params["N"]))).round(1) + 0.0
        if params["N"] <= b or x[0, b : 2 * b].max() > x[0, :b].max():
            break
    return {"x": x.astype(np.float32)}


def softmax(x: Vector, dtype: npt.DTypeLike) -> tuple[Vector, Vector, Vector]:
    """Max, denominator and softmax of each row of x (rows, N), all by definition: (rows, 1), (rows, 1), (rows, N)."""
    x = x.astype(dtype)
    m = x.max(axis=1, keepdims=True)
    e = np.exp(x - m)
    d = e.sum(axis=1, keepdims=True)
    return m, d, e / d


def _outputs(params: Params, inputs: Arrays, dtype: npt.DTypeLike) -> Arrays:
    return {"y": softmax(inputs["x"], dtype)[2]}


def _truth(params: Params, inputs: Arrays, moment: Moment, dtype: npt.DTypeLike) -> Truth:
    """What a block holds after one step: m and d of the numbers seen so far, then y of the whole row."""
    N, b, i = params["N"], params["b"], moment.loop.get("i", 0)
    row = moment.block[0]
    x = inputs["x"][row]
    tile = slice(i * b, min(N, (i + 1) * b))
    seen = {"start": 0, "load": tile.start, "update": tile.stop}.get(moment.name, N)
    whole = softmax(x[None], dtype)[2][0]
    sram = {} if moment.name == "start" else {"xi": x[tile]}
    if seen:
        m, d, _ = softmax(x[None, :seen], dtype)
        sram |= {"m": m[0], "d": d[0]}
    else:
        sram |= {"m": np.array([-np.inf], dtype), "d": np.zeros(1, dtype)}
    written = np.full(N, np.nan, dtype)
    if moment.loop.get("pass"):
        end = tile.stop if moment.name == "write" else tile.start
        written[:end] = whole[:end]
        if moment.name != "reload":
            sram["yi"] = whole[tile]
    return Truth(sram=sram, hbm={"y": written}, tiles=dict.fromkeys("xy", (row, tile)))


def _magnitudes(params: Params, inputs: Arrays, head: int) -> Mapping[str, float]:
    x = inputs["x"][head].astype(np.float64)
    slack = max(1.0, float(np.ptp(x)))
    return {"m": 0.0, "d": params["N"] * slack, "y": slack}


def _traffic(params: Params) -> Mapping[str, tuple[int, int]]:
    """Elements read and written by all rows: x twice, y once."""
    cells = params["rows"] * params["N"]
    return {"x": (2 * cells, 0), "y": (0, cells)}


KERNEL = Kernel(
    name="online_softmax",
    title="Online softmax",
    source=Path(__file__).with_suffix(".cu"),
    parameters=(
        Parameter("rows", 6, "rows of x, one block each"),
        Parameter("N", 12, "numbers in a row"),
        Parameter("b", 4, "numbers in a tile"),
    ),
    recordings={"online-softmax": {}},
    derive=_derive,
    arrays=(
        Array("x", ("rows", "N"), tile="b"),
        Array("y", ("rows", "N"), tile="b", role="output"),
    ),
    launches=(
        Launch(
            function="online_softmax",
            template=("b",),
            grid=("rows",),
            arguments=("x", "y", "N"),
            slots=(
                Slot("xi", "x", ("b",)),
                Slot("yi", "y", ("b",)),
                Slot("m", "m", ("one",)),
                Slot("d", "d", ("one",)),
            ),
            loops={"pass": "passes", "i": "T"},
            steps=(
                StepKind("start", (), (Clear("m", None), Clear("d", None))),
                StepKind("load", ("pass", "i"), (Load("x", "xi"),), most="T"),
                StepKind("update", ("pass", "i"), (Update("m", ("xi",)), Update("d", ("xi", "m"))), most="T"),
                StepKind("reload", ("pass", "i"), (Load("x", "xi"),), most="T"),
                StepKind("normalise", ("pass", "i"), (Compute("yi", rows="xi", columns=None),), most="T"),
                StepKind("write", ("pass", "i"), (Store("yi", "y"),), most="T"),
            ),
        ),
    ),
    make_inputs=_make_inputs,
    outputs=_outputs,
    truth=_truth,
    magnitudes=_magnitudes,
    traffic=_traffic,
)
