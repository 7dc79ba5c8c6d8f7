"""The declaration of ``twice.cu``: `python -m kernels record docs/examples/twice.py -o twice.trace`."""

from math import ceil
from pathlib import Path

import numpy as np

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
from kernels.layout import Compute, Load, Store


def truth(params: Params, inputs: Arrays, moment: Moment, dtype: np.typing.DTypeLike) -> Truth:
    """What a block holds after one step."""
    b, i = params["b"], moment.loop["i"]
    x = inputs["x"][moment.block[0]].astype(dtype)
    tile = slice(i * b, min(len(x), (i + 1) * b))
    y = np.full_like(x, np.nan)  # NaN: not written yet
    end = tile.stop if moment.name == "write" else tile.start
    y[:end] = 2 * x[:end]
    sram = {"xi": x[tile]}
    if moment.name != "load":
        sram["yi"] = 2 * x[tile]
    elif i:
        sram["yi"] = 2 * x[tile.start - b : tile.start]  # of the tile before
    moved = moment.block[0], tile
    return Truth(sram=sram, hbm={"y": y}, tiles={"x": moved, "y": moved})


KERNEL = Kernel(
    name="twice",
    title="Twice",
    source=Path(__file__).with_suffix(".cu"),
    parameters=(
        Parameter("rows", 2, "rows of x, one block each"),
        Parameter("N", 6, "numbers in a row"),
        Parameter("b", 4, "numbers in a tile"),
    ),
    derive=lambda params: {"T": ceil(params["N"] / params["b"])},
    arrays=(Array("x", ("rows", "N"), tile="b"), Array("y", ("rows", "N"), tile="b", role="output")),
    launches=(
        Launch(
            function="twice",
            template=("b",),
            grid=("rows",),
            arguments=("x", "y", "N"),
            slots=(Slot("xi", "x", ("b",)), Slot("yi", "y", ("b",))),
            loops={"i": "T"},
            steps=(
                StepKind("load", ("i",), (Load("x", "xi"),)),
                StepKind("twice", ("i",), (Compute("yi", rows="xi", columns=None),)),
                StepKind("write", ("i",), (Store("yi", "y"),)),
            ),
        ),
    ),
    make_inputs=lambda params, seed: {
        "x": np.random.default_rng(seed).normal(size=(params["rows"], params["N"])).astype(np.float32)
    },
    outputs=lambda params, inputs, dtype: {"y": 2 * inputs["x"].astype(dtype)},
    truth=truth,
    magnitudes=lambda params, inputs, head: {"y": 1.0},
    traffic=lambda params: {
        "x": (params["rows"] * params["N"], 0),
        "y": (0, params["rows"] * params["N"]),
    },
)
