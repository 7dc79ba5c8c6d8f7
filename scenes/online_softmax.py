"""Online softmax: one row of any trace of ``online_softmax`` as a film."""

from __future__ import annotations

from scenes.film import Film
from scenes.score import Score, Wording
from scenes.workings import fold_numbers, softmax_of_tile


class OnlineSoftmax(Film):
    """``manim render -qh scenes/online_softmax.py OnlineSoftmax``; TRACE, THEME and BLOCK choose what is played."""

    score = Score(
        kernel="online_softmax",
        arrays=[("x", "y")],
        slots=[("xi", "m", "d", "yi")],
        wordings={
            "start": Wording(
                "clear m, d",
                "Clear $m$ and $d$",
                "Before any number is seen, the max is m = −∞ and the denominator d = 0.",
            ),
            "load": Wording(
                "load {tiles}",
                "Load {tiles}",
                "First pass, tile i = {i}: {tiles} is copied from HBM to SRAM, over what was there.",
            ),
            "update": Wording(
                "update m, d",
                "Update $m$ and $d$ with $x_i$",
                "First pass, tile i = {i}: m takes the larger max; d is rescaled to it and takes in the tile.",
            ),
            "reload": Wording(
                "load {tiles} again",
                "Load {tiles} again",
                "Second pass, tile i = {i}: {tiles} is fetched once more, now that m and d of the whole row are known.",
            ),
            "normalise": Wording(
                "compute yi",
                "Compute $y_i$ from $x_i,$ $m$ and $d$",
                "Second pass, tile i = {i}: each number of yi is exp(x − m) / d.",
            ),
            "write": Wording(
                "write {tiles}",
                "Write {tiles}",
                "Second pass, tile i = {i}: {tiles} is copied to HBM.",
            ),
        },
        workings={"update": fold_numbers, "normalise": softmax_of_tile},
    )
