"""Flash decoding: the splits of one head of any trace of ``flash_decoding``, then the block that combines them."""

from __future__ import annotations

from scenes.film import Film
from scenes.score import Score, Wording
from scenes.workings import divide, fold_partials, fold_scores


class FlashDecoding(Film):
    """``manim render -qh scenes/flash_decoding.py FlashDecoding``; TRACE, THEME and BLOCK choose what is played."""

    score = Score(
        kernel="flash_decoding",
        arrays=[("Q", "K", "V", "mp", "lp", "Op"), ("mp", "lp", "Op", "O", "L")],
        slots=[("Qi", "Kj", "Sij", "Vj", "mi", "li", "Oi"), ("ms", "ls", "Os", "mi", "li", "Oi", "Li")],
        wordings={
            "load_q": Wording(
                "load {tiles}, clear mi, li, Oi",
                "Load {tiles} and clear $m_i,$ $l_i,$ $O_i$",
                "{tiles} is copied from HBM to SRAM; the carries start at mi = −∞, li = 0, Oi = 0.",
            ),
            "load_kv": Wording(
                "load {tiles}",
                "Load {tiles}",
                "Tile j = {j} of the keys is in this split: {tiles} are copied from HBM to SRAM.",
            ),
            "compute": Wording(
                "compute Sij",
                "Compute $S_(i j)$ = $Q_i$ $K_j^top$ / √d",
                "Loop j = {j}: Sij = Qi Kjᵀ / √d, each query against each key of the tile.",
            ),
            "update": Wording(
                "update mi, li, Oi",
                "Update $m_i,$ $l_i,$ $O_i$ with $S_(i j)$ and $V_j$",
                "Loop j = {j}: the running max mi, the denominator li and the sum Oi take in Sij and Vj.",
            ),
            "write_part": Wording(
                "write the split's m, l, O",
                "Write the partial $m,$ $l,$ $O$ of this split",
                "The split is done: its mi, li and Oi, not divided, are copied to HBM for the second launch.",
            ),
            "start": Wording(
                "clear mi, li, Oi",
                "Clear $m_i,$ $l_i,$ $O_i$",
                "The carries start at mi = −∞, li = 0, Oi = 0, as if no key had been seen.",
            ),
            "load_part": Wording(
                "load the m, l, O of split {s}",
                "Load the partial $m,$ $l,$ $O$ of split {s}",
                "Loop s = {s}: what split {s} left in HBM is copied to SRAM.",
            ),
            "combine": Wording(
                "fold split {s} into mi, li, Oi",
                "Fold $m_s,$ $l_s,$ $O_s$ into $m_i,$ $l_i,$ $O_i$",
                "Loop s = {s}: both sides are rescaled to the larger max and added, the same rescaling once more.",
            ),
            "finish": Wording(
                "divide Oi by li, compute Li",
                "Divide $O_i$ by $l_i$ and compute $L_i$ = $m_i$ + log $l_i$",
                "All splits are folded in: Oi is divided by li, once, and Li = mi + log li is computed.",
            ),
            "write": Wording(
                "write {tiles}",
                "Write {tiles}",
                "{tiles} are copied to HBM: the attention over the whole cache.",
            ),
        },
        workings={
            "update": fold_scores(divided=False),
            "combine": fold_partials,
            "finish": divide,
        },
    )
