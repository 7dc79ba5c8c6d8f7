"""FlashAttention-1: one block of any trace of ``fa1`` as a film."""

from __future__ import annotations

from scenes.film import Film
from scenes.score import Score, Wording
from scenes.workings import fold_scores


class FlashAttention1(Film):
    """``manim render -qh scenes/fa1.py FlashAttention1``; TRACE, THEME and BLOCK choose what is played."""

    score = Score(
        kernel="fa1",
        arrays=[("Q", "K", "V", "m", "l", "O")],
        slots=[("Qi", "Kj", "Sij", "Vj", "mi", "li", "Oi")],
        wordings={
            "load_kv": Wording(
                "load {tiles}",
                "Load {tiles}",
                "Outer loop j = {j}: the tiles {tiles} are copied from HBM to SRAM, over what was there.",
            ),
            "load_q": Wording(
                "load {tiles}",
                "Load {tiles}",
                "Outer loop j = {j}, inner loop i = {i}: {tiles} are copied from HBM to SRAM.",
            ),
            "compute": Wording(
                "compute Sij",
                "Compute $S_(i j)$ = $Q_i$ $K_j^top$ / √d",
                "Outer loop j = {j}, inner loop i = {i}: Sij = Qi Kjᵀ / √d, each query of the tile against each key.",
            ),
            "update": Wording(
                "update mi, li, Oi",
                "Update $m_i,$ $l_i,$ $O_i$ with $S_(i j)$ and $V_j$",
                "Outer loop j = {j}, inner loop i = {i}: the running max mi, the denominator li and the output Oi "
                "take in Sij and Vj.",
            ),
            "write": Wording(
                "write {tiles}",
                "Write {tiles} back",
                "Outer loop j = {j}, inner loop i = {i}: {tiles} are copied back to HBM.",
            ),
        },
        workings={"update": fold_scores(divided=True)},
    )
