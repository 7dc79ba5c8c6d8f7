"""A tiled matrix product C = A B: the vocabulary of the films in a scene of its own, without a trace."""

import numpy as np
from manim import Scene, config

from scenes import vocabulary as v

LETTERS = {"A": "Q", "B": "K", "C": "O"}  # whose colours each matrix has
THEME = v.theme_named("light")
config.background_color = THEME.paper


class TiledProduct(Scene):
    """``manim render -qm scenes/examples/tiled_product.py TiledProduct``: a block for each tile of C."""

    def construct(self) -> None:
        A, B = np.random.default_rng(1).integers(-4, 5, (2, 4, 4))
        sram = v.Memory("SRAM", v.Box(-6.5, 0.1, 13, 2.5), THEME)
        grid, zoom = v.BlockGrid((2, 2, 1), v.Box(-1, 0.85, 2, 0.6), THEME), v.ZoomLines(THEME)
        caption = v.Caption(v.Box(-6.5, -2.8, 13, 0.8), THEME)
        self.add(v.Memory("HBM", v.Box(-6.5, 3.8, 13, 2.75), THEME), sram, zoom, grid, caption)
        home = {name: v.Box(3.2 * n - 4.5, 3.2, 2.6, 1.9) for n, name in enumerate("ABC")}
        slot = {name: v.Box(3.2 * n - 4, -0.6, 1.6, 1.2) for n, name in enumerate("ABC")}
        self.add(*(v.Slot(box[n], n, THEME, symbol) for box in (home, slot) for n, symbol in LETTERS.items()))
        self.add(v.matrix_in(home["A"], A, "Q", THEME), v.matrix_in(home["B"], B, "K", THEME))
        for block, (i, j) in enumerate(np.ndindex(2, 2)):
            held: list[v.Matrix] = []
            caption.say(f"Block {block + 1} of 4 sums up its tile of $C$")
            self.play(v.RunBlock(grid, zoom, sram.box, block, block - 1 if block else None))
            for k in range(2):
                for name, matrix, row, column in (("A", A, i, k), ("B", B, k, j)):
                    values = matrix[2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
                    held.append(v.matrix_in(slot[name], values, LETTERS[name], THEME))
                    self.play(v.MoveTile(held[-1], v.tile_of(home[name], row, column, 2), slot[name]))
                so_far = A[2 * i : 2 * i + 2, : 2 * k + 2] @ B[: 2 * k + 2, 2 * j : 2 * j + 2]
                held.append(v.matrix_in(slot["C"], so_far, "O", THEME, shade=k))
                self.play(v.Rise(held[-1]))
            self.play(v.MoveTile(held[-1].copy(), slot["C"], v.tile_of(home["C"], i, j, 2)))
            self.play(*map(v.Drop, held))
