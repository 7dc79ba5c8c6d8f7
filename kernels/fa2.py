"""FlashAttention-2: the declaration of ``fa2.cu``, and the attention it must compute, by definition."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kernels.attention import (
    attention,
    draw_inputs,
    keys_loaded,
    magnitudes,
    partial_attention,
    scale,
    scores,
)
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


def _derive(params: Params) -> Mapping[str, int]:
    return {"Tr": ceil(params["Nq"] / params["Br"]), "Tc": ceil(params["Nk"] / params["Bc"])}


def _make_inputs(params: Params, seed: int) -> Arrays:
    heads, Nq, Nk, d, Bc = (params[name] for name in ("batch_heads", "Nq", "Nk", "d", "Bc"))
    return draw_inputs(heads, Nq, Nk, d, Bc, bool(params["causal"]), seed)


def _outputs(params: Params, inputs: Arrays, dtype: npt.DTypeLike) -> Arrays:
    result = attention(inputs["Q"], inputs["K"], inputs["V"], bool(params["causal"]), dtype)
    return {name: result[name] for name in ("O", "L")}


def _truth(params: Params, inputs: Arrays, moment: Moment, dtype: npt.DTypeLike) -> Truth:
    """What a block holds after one step: its rows' sums over the keys they have seen, divided at the end."""
    Br, Bc, Nk, causal = params["Br"], params["Bc"], params["Nk"], bool(params["causal"])
    i, head, _ = moment.block
    Q, K, V = (inputs[name][head] for name in "QKV")
    rows = slice(i * Br, min(len(Q), (i + 1) * Br))
    done = moment.name in ("finish", "write")

    j = moment.loop.get("j", 0)
    keys = slice(j * Bc, min(Nk, (j + 1) * Bc))
    seen = {"load_q": 0, "update": keys.stop, "finish": Nk, "write": Nk}.get(moment.name, keys.start)
    carried = partial_attention(Q, K, V, seen, causal, dtype)
    sram = {
        "Qi": Q[rows],
        "Oi": carried["O" if done else "U"][rows],
        "mi": carried["m"][rows],
        "li": carried["l"][rows],
    }
    if "j" in moment.loop:
        sram |= {"Kj": K[keys], "Vj": V[keys]}
        if moment.name != "load_kv":
            sram["Sij"] = scores(Q, K, causal, dtype)[rows, keys]
    if done:
        sram["Li"] = carried["L"][rows]

    hbm = {name: np.full(carried[name].shape, np.nan, dtype) for name in ("O", "L")}
    if moment.name == "write":
        for name, window in hbm.items():
            window[rows] = carried[name][rows]
    tiles = dict.fromkeys("KV", (head, keys)) | dict.fromkeys("QOL", (head, rows))
    return Truth(sram=sram, hbm=hbm, tiles=tiles)


def _magnitudes(params: Params, inputs: Arrays, head: int) -> Mapping[str, float]:
    terms = magnitudes(*(inputs[name][head] for name in "QKV"))
    return {**terms, "Oi": terms["U"]}


def _traffic(params: Params) -> Mapping[str, tuple[int, int]]:
    """Elements read and written by all heads: Q, O and L once, K and V once for each tile of Q that sees them."""
    Nq, Nk, d, Br, Bc, heads = (params[name] for name in ("Nq", "Nk", "d", "Br", "Bc", "batch_heads"))
    keys = keys_loaded(Nq, Nk, Br, Bc, bool(params["causal"]))
    return {
        "Q": (heads * Nq * d, 0),
        "K": (heads * keys * d, 0),
        "V": (heads * keys * d, 0),
        "O": (0, heads * Nq * d),
        "L": (0, heads * Nq),
    }


KERNEL = Kernel(
    name="fa2",
    title="FlashAttention-2",
    source=Path(__file__).with_suffix(".cu"),
    parameters=(
        Parameter("Nq", 8, "rows of Q"),
        Parameter("Nk", 8, "rows of K and V"),
        Parameter("d", 4, "columns of Q, K and V"),
        Parameter("Br", 4, "rows of a tile of Q"),
        Parameter("Bc", 4, "rows of a tile of K and V"),
        Parameter("batch_heads", 3, "independent heads, batch times heads"),
        Parameter("causal", 0, "a row sees no key behind it", switch=True),
    ),
    recordings={
        "fa2": {},
        "fa2-causal": {"Nq": 12, "Nk": 12, "causal": 1, "batch_heads": 2},
        "fa2-n64": {"Nq": 64, "Nk": 64, "d": 16, "Br": 16, "Bc": 16, "batch_heads": 2},
    },
    derive=_derive,
    scalars=scale,
    arrays=(
        Array("Q", ("batch_heads", "Nq", "d"), tile="Br"),
        Array("K", ("batch_heads", "Nk", "d"), tile="Bc"),
        Array("V", ("batch_heads", "Nk", "d"), tile="Bc"),
        Array("O", ("batch_heads", "Nq", "d"), tile="Br", role="output"),
        Array("L", ("batch_heads", "Nq"), tile="Br", role="output"),
    ),
    launches=(
        Launch(
            function="fa2",
            template=("Br", "Bc", "d"),
            grid=("Tr", "batch_heads"),
            arguments=("Q", "K", "V", "O", "L", "Nq", "Nk", "scale", "causal"),
            slots=(
                Slot("Qi", "Q", ("Br", "d")),
                Slot("Kj", "K", ("Bc", "d")),
                Slot("Vj", "V", ("Bc", "d")),
                Slot("Sij", "S", ("Br", "Bc")),
                Slot("Oi", "O", ("Br", "d")),
                Slot("mi", "m", ("Br",)),
                Slot("li", "l", ("Br",)),
                Slot("Li", "L", ("Br",)),
            ),
            loops={"j": "Tc"},
            steps=(
                StepKind(
                    "load_q", (), (Load("Q", "Qi"), Clear("mi", "Qi"), Clear("li", "Qi"), Clear("Oi", "Qi"))
                ),
                StepKind("load_kv", ("j",), (Load("K", "Kj"), Load("V", "Vj"))),
                StepKind("compute", ("j",), (Compute("Sij", rows="Qi", columns="Kj"),)),
                StepKind(
                    "update",
                    ("j",),
                    (Update("mi", ("Sij",)), Update("li", ("Sij", "mi")), Update("Oi", ("Sij", "mi", "Vj"))),
                ),
                StepKind("finish", (), (Update("Oi", ("li",)), Compute("Li", rows="mi", columns=None))),
                StepKind("write", (), (Store("Oi", "O"), Store("Li", "L"))),
            ),
        ),
    ),
    make_inputs=_make_inputs,
    outputs=_outputs,
    truth=_truth,
    magnitudes=_magnitudes,
    traffic=_traffic,
)
