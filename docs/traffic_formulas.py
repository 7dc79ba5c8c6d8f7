"""What crosses HBM, by formula: standard attention and the attention kernels of this site, array by array.

Each count is a product of sizes, so one table of products serves the page's text, its numbers and its form. All are for
one head, without a causal mask; `S` and `P` are the scores and their softmax, which only standard attention stores.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

Product = tuple[str, ...]


@dataclass(frozen=True)
class Crossing:
    """One array: its symbol, and the elements read and written; None: never."""

    array: str
    symbol: str
    read: Product | None
    written: Product | None


@dataclass(frozen=True)
class Method:
    """One way to compute attention, and what it moves. `kernel` is ours, or None for standard attention."""

    name: str
    title: str
    kernel: str | None
    crossings: tuple[Crossing, ...]

    def counts(self, sizes: Mapping[str, int]) -> dict[str, tuple[int, int]]:
        """Elements read and written of each array at these sizes."""
        return {
            crossing.array: (evaluate(crossing.read, sizes), evaluate(crossing.written, sizes))
            for crossing in self.crossings
        }

    def total(self, sizes: Mapping[str, int]) -> int:
        """All elements that cross, both ways."""
        return sum(read + written for read, written in self.counts(sizes).values())


def evaluate(product: Product | None, sizes: Mapping[str, int]) -> int:
    """The product at these sizes; 0 for none."""
    return 0 if product is None else math.prod(sizes[name] for name in product)


def all_sizes(Nq: int, Nk: int, d: int, Br: int, Bc: int, splits: int = 1) -> dict[str, int]:
    """These sizes and the tiles they come to; `N` is Nq, for methods that take as many queries as keys."""
    tiles = {"Tr": math.ceil(Nq / Br), "Tc": math.ceil(Nk / Bc)}
    return {"N": Nq, "Nq": Nq, "Nk": Nk, "d": d, "Br": Br, "Bc": Bc, "splits": splits, **tiles}


def fa1_moves_more(N: int, d: int, Bc: int) -> bool:
    """Whether FlashAttention-1 moves more elements than standard attention: page `traffic` derives it."""
    return Bc * ((4 * N + 2 * d) // (3 * d + 4)) < N


STANDARD = Method(
    "standard",
    "Standard attention",
    None,
    (
        Crossing("Q", "Q", ("Nq", "d"), None),
        Crossing("K", "K", ("Nk", "d"), None),
        Crossing("S", "S", ("Nq", "Nk"), ("Nq", "Nk")),
        Crossing("P", "S", ("Nq", "Nk"), ("Nq", "Nk")),
        Crossing("V", "V", ("Nk", "d"), None),
        Crossing("O", "O", None, ("Nq", "d")),
    ),
)

FA1 = Method(
    "fa1",
    "FlashAttention-1",
    "fa1",
    (
        Crossing("Q", "Q", ("Tc", "N", "d"), None),
        Crossing("K", "K", ("N", "d"), None),
        Crossing("V", "V", ("N", "d"), None),
        Crossing("O", "O", ("Tc", "N", "d"), ("Tc", "N", "d")),
        Crossing("l", "l", ("Tc", "N"), ("Tc", "N")),
        Crossing("m", "m", ("Tc", "N"), ("Tc", "N")),
    ),
)

FA2 = Method(
    "fa2",
    "FlashAttention-2",
    "fa2",
    (
        Crossing("Q", "Q", ("Nq", "d"), None),
        Crossing("K", "K", ("Tr", "Nk", "d"), None),
        Crossing("V", "V", ("Tr", "Nk", "d"), None),
        Crossing("O", "O", None, ("Nq", "d")),
        Crossing("L", "L", None, ("Nq",)),
    ),
)

FLASH_DECODING = Method(
    "flash-decoding",
    "Flash decoding",
    "flash_decoding",
    (
        Crossing("Q", "Q", ("splits", "Nq", "d"), None),
        Crossing("K", "K", ("Tr", "Nk", "d"), None),
        Crossing("V", "V", ("Tr", "Nk", "d"), None),
        Crossing("Op", "O", ("splits", "Nq", "d"), ("splits", "Nq", "d")),
        Crossing("lp", "l", ("splits", "Nq"), ("splits", "Nq")),
        Crossing("mp", "m", ("splits", "Nq"), ("splits", "Nq")),
        Crossing("O", "O", None, ("Nq", "d")),
        Crossing("L", "L", None, ("Nq",)),
    ),
)

METHODS = {method.name: method for method in (STANDARD, FA1, FA2, FLASH_DECODING)}
