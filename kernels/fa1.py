"""FlashAttention-1: the declaration of ``fa1.cu``, and the attention it must compute, by definition."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, inf
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kernels.attention import attention, draw_inputs, magnitudes, partial_attention, scale, scores
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
from kernels.layout import Compute, Load, Store, Update


def _derive(params: Params) -> Mapping[str, int]:
    return {"Tr": ceil(params["N"] / params["Br"]), "Tc": ceil(params["N"] / params["Bc"])}


def _make_inputs(params: Params, seed: int) -> Arrays:
    heads, N, d, Bc = (params[name] for name in ("batch_heads", "N", "d", "Bc"))
    return draw_inputs(heads, N, N, d, Bc, bool(params["causal"]), seed)


def _outputs(params: Params, inputs: Arrays, dtype: npt.DTypeLike) -> Arrays:
    result = attention(inputs["Q"], inputs["K"], inputs["V"], bool(params["causal"]), dtype)
    return {name: result[name] for name in ("O", "l", "m")}


def _truth(params: Params, inputs: Arrays, moment: Moment, dtype: npt.DTypeLike) -> Truth:
    """What a block holds after one step: each row's carries are its attention over the keys it has seen by then."""
    N, Br, Bc, causal = params["N"], params["Br"], params["Bc"], bool(params["causal"])
    head = moment.block[0]
    Q, K, V = (inputs[name][head] for name in "QKV")
    j, i = moment.loop["j"], moment.loop.get("i", 0)
    before, after = min(N, j * Bc), min(N, (j + 1) * Bc)
    keys, rows = slice(before, after), slice(i * Br, min(N, (i + 1) * Br))

    tile = np.arange(N) // Br
    written = (tile < i) | ((tile == i) & (moment.name == "write"))
    carried = partial_attention(Q, K, V, np.where(written, after, before), causal, dtype)
    hbm = {name: carried[name] for name in ("O", "l", "m")}

    sram = {"Kj": K[keys], "Vj": V[keys]}
    if moment.name != "load_kv":
        seen = after if moment.name in ("update", "write") else before
        carries = partial_attention(Q, K, V, seen, causal, dtype)
        sram |= {"Qi": Q[rows], "Oi": carries["O"][rows], "mi": carries["m"][rows], "li": carries["l"][rows]}
        if moment.name != "load_q":
            sram["Sij"] = scores(Q, K, causal, dtype)[rows, keys]
    tiles = dict.fromkeys("KV", (head, keys)) | dict.fromkeys("QOlm", (head, rows))
    return Truth(sram=sram, hbm=hbm, tiles=tiles)


def _magnitudes(params: Params, inputs: Arrays, head: int) -> Mapping[str, float]:
    return magnitudes(*(inputs[name][head] for name in "QKV"))


def _traffic(params: Params) -> Mapping[str, tuple[int, int]]:
    """Elements read and written by all heads: K and V once, the rest once for each tile of K and V it meets."""
    N, d, Br, Bc = (params[name] for name in ("N", "d", "Br", "Bc"))
    Tr, Tc = ceil(N / Br), ceil(N / Bc)
    heads = params["batch_heads"]
    if params["causal"]:
        rows = sum(min(Br, N - i * Br) for j in range(Tc) for i in range(Tr) if (i + 1) * Br > j * Bc)
    else:
        rows = Tc * N
    return {
        "Q": (heads * rows * d, 0),
        "K": (heads * N * d, 0),
        "V": (heads * N * d, 0),
        "O": (heads * rows * d, heads * rows * d),
        "l": (heads * rows, heads * rows),
        "m": (heads * rows, heads * rows),
    }


_MATRIX, _VECTOR = ("batch_heads", "N", "d"), ("batch_heads", "N")

KERNEL = Kernel(
    name="fa1",
    title="FlashAttention-1",
    source=Path(__file__).with_suffix(".cu"),
    parameters=(
        Parameter("N", 8, "rows of Q, K and V"),
        Parameter("d", 4, "columns of Q, K and V"),
        Parameter("Br", 4, "rows of a tile of Q"),
        Parameter("Bc", 4, "rows of a tile of K and V"),
        Parameter("batch_heads", 6, "independent heads, batch times heads"),
        Parameter("causal", 0, "a row sees no key behind it", switch=True),
    ),
    recordings={"fa1": {}, "fa1-n64": {"N": 64, "d": 16, "Br": 16, "Bc": 16}},
    derive=_derive,
    scalars=scale,
    arrays=(
        Array("Q", _MATRIX, tile="Br"),
        Array("K", _MATRIX, tile="Bc"),
        Array("V", _MATRIX, tile="Bc"),
        Array("O", _MATRIX, tile="Br", role="output", fill=0.0),
        Array("l", _VECTOR, tile="Br", role="output", fill=0.0),
        Array("m", _VECTOR, tile="Br", role="output", fill=-inf),
    ),
    launches=(
        Launch(
            function="fa1",
            template=("Br", "Bc", "d"),
            grid=("batch_heads",),
            arguments=("Q", "K", "V", "O", "l", "m", "N", "scale", "causal"),
            slots=(
                Slot("Qi", "Q", ("Br", "d")),
                Slot("Kj", "K", ("Bc", "d")),
                Slot("Vj", "V", ("Bc", "d")),
                Slot("Sij", "S", ("Br", "Bc")),
                Slot("Oi", "O", ("Br", "d")),
                Slot("mi", "m", ("Br",)),
                Slot("li", "l", ("Br",)),
            ),
            loops={"j": "Tc", "i": "Tr"},
            steps=(
                StepKind("load_kv", ("j",), (Load("K", "Kj"), Load("V", "Vj"))),
                StepKind(
                    "load_q", ("j", "i"), (Load("Q", "Qi"), Load("m", "mi"), Load("l", "li"), Load("O", "Oi"))
                ),
                StepKind("compute", ("j", "i"), (Compute("Sij", rows="Qi", columns="Kj"),)),
                StepKind(
                    "update",
                    ("j", "i"),
                    (
                        Update("mi", ("Sij",)),
                        Update("li", ("Sij", "mi")),
                        Update("Oi", ("Sij", "mi", "li", "Vj")),
                    ),
                ),
                StepKind("write", ("j", "i"), (Store("mi", "m"), Store("li", "l"), Store("Oi", "O"))),
            ),
        ),
    ),
    make_inputs=_make_inputs,
    outputs=_outputs,
    truth=_truth,
    magnitudes=_magnitudes,
    traffic=_traffic,
)
