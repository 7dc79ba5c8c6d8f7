"""The shapes the kernels are swept over: ragged in every way, causal or not, one thread or several."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

Params = dict[str, int]

WIDTHS = {  # d for each Br, Bc
    (1, 1): 64,
    (2, 3): 3,
    (3, 2): 1,
    (4, 4): 4,
    (5, 8): 17,
    (16, 16): 64,
    (32, 8): 2,
}
TILES = list(WIDTHS)
PAIRS = [(1, 1), (1, 7), (2, 5), (5, 2), (3, 3), (8, 8), (13, 6), (16, 31), (33, 32), (70, 70)]
_LARGEST = 60  # pairs of tiles in one run


def _attention(pairs: list[tuple[int, int]]) -> Iterator[Params]:
    for number, ((Br, Bc), (Nq, Nk)) in enumerate(itertools.product(TILES, pairs)):
        if -(-Nq // Br) * -(-Nk // Bc) > _LARGEST:
            continue
        d = WIDTHS[Br, Bc]
        for causal in (0, 1):
            yield {
                "Nq": Nq,
                "Nk": Nk,
                "d": d,
                "Br": Br,
                "Bc": Bc,
                "causal": causal,
                "threads": (1, 2, 5)[number % 3],
            }


def sweep(kernel: str) -> list[Params]:
    """Parameters of many runs of `kernel`, threads per block among them."""
    if kernel == "online_softmax":
        widths = (1, 2, 3, 5, 8, 16, 31, 70)
        return [
            {"N": N, "b": b, "rows": 2, "threads": t}
            for N in widths
            for b in (1, 3, 4, 16, 33)
            for t in (1, 3)
        ]
    if kernel == "fa1":
        square = [(N, N) for N in (1, 2, 3, 5, 8, 13, 16, 31, 33, 70)]
        runs = [{"N": run.pop("Nq"), **run} for run in _attention(square)]
        return [
            {**{key: value for key, value in run.items() if key != "Nk"}, "batch_heads": 2} for run in runs
        ]
    if kernel == "fa2":
        return [{**run, "batch_heads": 2} for run in _attention(PAIRS)]
    if kernel == "flash_decoding":
        return [
            {**run, "batch_heads": 2, "splits": (1, 2, 3, 7)[n % 4]}
            for n, run in enumerate(_attention(PAIRS))
        ]
    raise AssertionError(f"no sweep for {kernel}")
