"""Flash decoding: the declaration of ``flash_decoding.cu``, and the attention it must compute, by definition."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kernels.attention import (
    Matrix,
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
    Tc = ceil(params["Nk"] / params["Bc"])
    return {
        "Tr": ceil(params["Nq"] / params["Br"]),
        "Tc": Tc,
        "tiles": ceil(Tc / params["splits"]),
        "parts": params["splits"] * params["Nq"],
    }


def _make_inputs(params: Params, seed: int) -> Arrays:
    heads, Nq, Nk, d, Bc = (params[name] for name in ("batch_heads", "Nq", "Nk", "d", "Bc"))
    return draw_inputs(heads, Nq, Nk, d, Bc, bool(params["causal"]), seed)


def _split(params: Params, s: int) -> slice:
    """The keys of split `s`, whole tiles of them; empty for a split past the last tile."""
    size = _derive(params)["tiles"] * params["Bc"]
    return slice(min(params["Nk"], s * size), min(params["Nk"], (s + 1) * size))


_PARTS = ("Op", "lp", "mp")


def _part(params: Params, s: int, rows: slice) -> slice:
    """Where the partial results of split `s` for these rows of Q stand."""
    return slice(s * params["Nq"] + rows.start, s * params["Nq"] + rows.stop)


def _outputs(params: Params, inputs: Arrays, dtype: npt.DTypeLike) -> Arrays:
    Q, K, V = (inputs[name] for name in "QKV")
    causal = bool(params["causal"])
    result = attention(Q, K, V, causal, dtype)
    parts = [
        [
            partial_attention(*head, split.stop, causal, dtype, since=split.start)
            for split in (_split(params, s) for s in range(params["splits"]))
        ]
        for head in zip(Q, K, V, strict=True)
    ]

    def stacked(name: str) -> Matrix:
        return np.stack([np.concatenate([part[name] for part in head]) for head in parts])

    return {
        "Op": stacked("U"),
        "lp": stacked("l"),
        "mp": stacked("m"),
        "O": result["O"],
        "L": result["L"],
    }


def _truth(params: Params, inputs: Arrays, moment: Moment, dtype: npt.DTypeLike) -> Truth:
    """What a block holds after one step: partial sums over the keys of its split, or over the splits combined."""
    return (_truth_of_split, _truth_of_combine)[moment.launch](params, inputs, moment, dtype)


def _truth_of_split(params: Params, inputs: Arrays, moment: Moment, dtype: npt.DTypeLike) -> Truth:
    Br, Bc, Nq, Nk = (params[name] for name in ("Br", "Bc", "Nq", "Nk"))
    causal = bool(params["causal"])
    s, i, head = moment.block
    Q, K, V = (inputs[name][head] for name in "QKV")
    rows = slice(i * Br, min(Nq, (i + 1) * Br))
    split = _split(params, s)

    j = moment.loop.get("j", 0)
    keys = slice(j * Bc, min(Nk, (j + 1) * Bc))
    seen = {"load_q": split.start, "update": keys.stop, "write_part": split.stop}.get(moment.name, keys.start)
    carried = partial_attention(Q, K, V, seen, causal, dtype, since=split.start)
    sram = {"Qi": Q[rows], "Oi": carried["U"][rows], "mi": carried["m"][rows], "li": carried["l"][rows]}
    if "j" in moment.loop:
        sram |= {"Kj": K[keys], "Vj": V[keys]}
        if moment.name != "load_kv":
            sram["Sij"] = scores(Q, K, causal, dtype)[rows, keys]

    parts, place = params["splits"] * Nq, _part(params, s, rows)
    hbm = {"Op": np.full((parts, Q.shape[1]), np.nan, dtype), "lp": np.full(parts, np.nan, dtype)}
    hbm["mp"] = hbm["lp"].copy()
    if moment.name == "write_part":
        for name, carry in (("Op", "U"), ("lp", "l"), ("mp", "m")):
            hbm[name][place] = carried[carry][rows]
    tiles = {"Q": (head, rows)} | dict.fromkeys("KV", (head, keys)) | dict.fromkeys(_PARTS, (head, place))
    return Truth(sram=sram, hbm=hbm, tiles=tiles)


def _truth_of_combine(params: Params, inputs: Arrays, moment: Moment, dtype: npt.DTypeLike) -> Truth:
    Br, Nq, Nk, causal = params["Br"], params["Nq"], params["Nk"], bool(params["causal"])
    i, head, _ = moment.block
    Q, K, V = (inputs[name][head] for name in "QKV")
    rows = slice(i * Br, min(Nq, (i + 1) * Br))
    done = moment.name in ("finish", "write")

    split = _split(params, moment.loop.get("s", 0))
    seen = {"start": 0, "combine": split.stop, "finish": Nk, "write": Nk}.get(moment.name, split.start)
    carried = partial_attention(Q, K, V, seen, causal, dtype)
    sram = {"Oi": carried["O" if done else "U"][rows], "mi": carried["m"][rows], "li": carried["l"][rows]}
    if "s" in moment.loop:
        part = partial_attention(Q, K, V, split.stop, causal, dtype, since=split.start)
        sram |= {"Os": part["U"][rows], "ms": part["m"][rows], "ls": part["l"][rows]}
    if done:
        sram["Li"] = carried["L"][rows]

    hbm = {name: np.full(carried[name].shape, np.nan, dtype) for name in ("O", "L")}
    if moment.name == "write":
        for name, window in hbm.items():
            window[rows] = carried[name][rows]
    place = _part(params, moment.loop.get("s", 0), rows)
    tiles = dict.fromkeys("OL", (head, rows)) | dict.fromkeys(_PARTS, (head, place))
    return Truth(sram=sram, hbm=hbm, tiles=tiles)


def _magnitudes(params: Params, inputs: Arrays, head: int) -> Mapping[str, float]:
    terms = magnitudes(*(inputs[name][head] for name in "QKV"))
    return {**terms, "Oi": terms["U"], "Os": terms["U"], "Op": terms["U"]}


def _traffic(params: Params) -> Mapping[str, tuple[int, int]]:
    """Elements read and written by all heads: Q once for each split, K and V once for each tile of Q that sees them.

    The partial results are written once and read once.
    """
    Nq, Nk, d, Br, Bc, heads, splits = (
        params[name] for name in ("Nq", "Nk", "d", "Br", "Bc", "batch_heads", "splits")
    )
    keys = keys_loaded(Nq, Nk, Br, Bc, bool(params["causal"]))
    parts = heads * splits * Nq
    return {
        "Q": (heads * splits * Nq * d, 0),
        "K": (heads * keys * d, 0),
        "V": (heads * keys * d, 0),
        "Op": (parts * d, parts * d),
        "lp": (parts, parts),
        "mp": (parts, parts),
        "O": (0, heads * Nq * d),
        "L": (0, heads * Nq),
    }


_CARRIES = (Slot("Oi", "O", ("Br", "d")), Slot("mi", "m", ("Br",)), Slot("li", "l", ("Br",)))

KERNEL = Kernel(
    name="flash_decoding",
    title="Flash decoding",
    source=Path(__file__).with_suffix(".cu"),
    parameters=(
        Parameter("Nq", 2, "rows of Q"),
        Parameter("Nk", 24, "rows of K and V"),
        Parameter("d", 4, "columns of Q, K and V"),
        Parameter("Br", 2, "rows of a tile of Q"),
        Parameter("Bc", 4, "rows of a tile of K and V"),
        Parameter("splits", 3, "splits of K and V"),
        Parameter("batch_heads", 2, "independent heads, batch times heads"),
        Parameter("causal", 0, "a row sees no key behind it", switch=True),
    ),
    recordings={
        "flash-decoding": {},
        "flash-decoding-n128": {"Nq": 1, "Br": 1, "Nk": 128, "d": 16, "Bc": 16, "splits": 4},
    },
    derive=_derive,
    scalars=scale,
    arrays=(
        Array("Q", ("batch_heads", "Nq", "d"), tile="Br"),
        Array("K", ("batch_heads", "Nk", "d"), tile="Bc"),
        Array("V", ("batch_heads", "Nk", "d"), tile="Bc"),
        Array("Op", ("batch_heads", "parts", "d"), tile="Nq", role="output", symbol="O"),
        Array("lp", ("batch_heads", "parts"), tile="Nq", role="output", symbol="l"),
        Array("mp", ("batch_heads", "parts"), tile="Nq", role="output", symbol="m"),
        Array("O", ("batch_heads", "Nq", "d"), tile="Br", role="output"),
        Array("L", ("batch_heads", "Nq"), tile="Br", role="output"),
    ),
    launches=(
        Launch(
            function="flash_decoding",
            template=("Br", "Bc", "d"),
            grid=("splits", "Tr", "batch_heads"),
            arguments=("Q", "K", "V", "Op", "lp", "mp", "Nq", "Nk", "splits", "scale", "causal"),
            slots=(
                Slot("Qi", "Q", ("Br", "d")),
                Slot("Kj", "K", ("Bc", "d")),
                Slot("Vj", "V", ("Bc", "d")),
                Slot("Sij", "S", ("Br", "Bc")),
                *_CARRIES,
            ),
            loops={"j": "Tc"},
            steps=(
                StepKind(
                    "load_q", (), (Load("Q", "Qi"), Clear("mi", "Qi"), Clear("li", "Qi"), Clear("Oi", "Qi"))
                ),
                StepKind("load_kv", ("j",), (Load("K", "Kj"), Load("V", "Vj")), most="tiles"),
                StepKind("compute", ("j",), (Compute("Sij", rows="Qi", columns="Kj"),), most="tiles"),
                StepKind(
                    "update",
                    ("j",),
                    (Update("mi", ("Sij",)), Update("li", ("Sij", "mi")), Update("Oi", ("Sij", "mi", "Vj"))),
                    most="tiles",
                ),
                StepKind("write_part", (), (Store("mi", "mp"), Store("li", "lp"), Store("Oi", "Op"))),
            ),
        ),
        Launch(
            function="combine",
            sram="CombineSram",
            template=("Br", "d"),
            grid=("Tr", "batch_heads"),
            arguments=("Op", "lp", "mp", "O", "L", "Nq", "splits"),
            slots=(
                Slot("Os", "O", ("Br", "d")),
                Slot("ms", "m", ("Br",)),
                Slot("ls", "l", ("Br",)),
                *_CARRIES,
                Slot("Li", "L", ("Br",)),
            ),
            loops={"s": "splits"},
            steps=(
                StepKind("start", (), (Clear("mi", None), Clear("li", None), Clear("Oi", None))),
                StepKind("load_part", ("s",), (Load("mp", "ms"), Load("lp", "ls"), Load("Op", "Os"))),
                StepKind(
                    "combine",
                    ("s",),
                    (
                        Update("mi", ("ms",)),
                        Update("li", ("ls", "mi", "ms")),
                        Update("Oi", ("Os", "mi", "ms")),
                    ),
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
