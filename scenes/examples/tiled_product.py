"""A tiled matrix product C = A B: the vocabulary of the films in a scene of its own, without a trace."""

import numpy as np
from manim import FadeOut, Scene, config

from scenes import vocabulary as v

HUES = {"A": "Q", "B": "K", "P": "S", "C": "O"}  # the letter whose colours each matrix has
THEME, SRAM, CAPTION = v.theme_wanted(), v.Box(-6.9, 0.1, 13.8, 2.7), v.Box(-6.9, -2.8, 13.8, 0.9)
HOME = {name: v.Box(4.2 * n - 5.5, 3.2, 2.9, 2.1) for n, name in enumerate("ABC")}
SLOT = {name: v.Box(3.2 * n - 5.8, -0.6, 2.2, 1.7) for n, name in enumerate("ABPC")}
TILE = {name: dict(zip(np.ndindex(2, 2), v.tiles_of(box, 2, 2), strict=True)) for name, box in HOME.items()}
ROWS, COLUMNS = v.tiles_of(SLOT["A"], 2, 1), v.tiles_of(SLOT["B"], 1, 2)
config.background_color = THEME.paper


class TiledProduct(Scene):
    """``manim render -qm scenes/examples/tiled_product.py TiledProduct``: a block for each tile of C."""

    def construct(self) -> None:
        X = dict(zip("AB", np.random.default_rng(2).integers(-4, 5, (2, 2, 2, 2, 2)), strict=True))
        grid, zoom = v.BlockGrid((2, 2, 1), v.Box(-1, 0.8, 2, 0.6), THEME), v.ZoomLines(THEME)
        self.add(v.Memory("HBM", v.Box(-6.9, 3.8, 13.8, 2.9), THEME), v.Memory("SRAM", SRAM, THEME))
        self.add(*(v.Slot(box, name, THEME, HUES[name]) for at in (HOME, SLOT) for name, box in at.items()))
        self.add(*(v.matrix_in(TILE[n][at], X[n][at], HUES[n], THEME) for n in X for at in TILE[n]))
        self.add(zoom, grid, caption := v.Caption(CAPTION, THEME))
        for block, (i, j) in enumerate(np.ndindex(2, 2)):
            caption.say(f"Block {block + 1} of 4: $C_({i} {j})$ is a sum of products of tiles")
            self.play(v.RunBlock(grid, zoom, SRAM, block, block - 1 if block else None))
            held, total = list[v.Matrix](), np.zeros((2, 2))
            for k in range(2):
                a, b, total = X["A"][i, k], X["B"][k, j], total + X["A"][i, k] @ X["B"][k, j]
                for name, values in {"A": a, "B": b, "P": a @ b, "C": total}.items():
                    held.append(v.matrix_in(SLOT[name], values, HUES[name], THEME))
                self.play(v.MoveTile(held[-4], TILE["A"][i, k], SLOT["A"]))
                self.play(v.MoveTile(held[-3], TILE["B"][k, j], SLOT["B"]))
                self.play(v.FillCells(held[-2]), v.PointAt(ROWS, COLUMNS, THEME.ink))
                self.play(v.Rise(held[-1], held[-5] if k else None), FadeOut(v.ring(SLOT["C"], THEME.ink)))
            self.play(v.MoveTile(held[-1].copy(), SLOT["C"], TILE["C"][i, j]))
            self.play(*map(v.Drop, held))
