"""FlashAttention-2: the blocks of one head of any trace of ``fa2``, one after another, as a film."""

from __future__ import annotations

from scenes.film import Film
from scenes.score import Score, Wording
from scenes.workings import divide, fold_scores


class FlashAttention2(Film):
    """``manim render -qh scenes/fa2.py FlashAttention2``; TRACE, THEME and BLOCK choose what is played."""

    score = Score(
        kernel="fa2",
        arrays=[("Q", "K", "V", "O", "L")],
        slots=[("Qi", "Kj", "Sij", "Vj", "mi", "li", "Oi", "Li")],
        wordings={
            "load_q": Wording(
                "load {tiles}, clear mi, li, Oi",
                "Load {tiles} and clear $m_i,$ $l_i,$ $O_i$",
                "{tiles} is copied from HBM to SRAM, where it stays; the carries start at mi = −∞, li = 0, Oi = 0.",
            ),
            "load_kv": Wording(
                "load {tiles}",
                "Load {tiles}",
                "Loop j = {j}: the tiles {tiles} are copied from HBM to SRAM, over what was there.",
            ),
            "compute": Wording(
                "compute Sij",
                "Compute $S_(i j)$ = $Q_i$ $K_j^top$ / √d",
                "Loop j = {j}: Sij = Qi Kjᵀ / √d, each query of the tile against each key.",
            ),
            "update": Wording(
                "update mi, li, Oi",
                "Update $m_i,$ $l_i,$ $O_i$ with $S_(i j)$ and $V_j$",
                "Loop j = {j}: the running max mi, the denominator li and the sum Oi take in Sij and Vj; "
                "Oi is not divided yet.",
            ),
            "finish": Wording(
                "divide Oi by li, compute Li",
                "Divide $O_i$ by $l_i$ and compute $L_i$ = $m_i$ + log $l_i$",
                "All keys are folded in: Oi is divided by li, once, and Li = mi + log li is computed.",
            ),
            "write": Wording(
                "write {tiles}",
                "Write {tiles}",
                "{tiles} are copied to HBM, once.",
            ),
        },
        workings={"update": fold_scores(divided=False), "finish": divide},
    )
