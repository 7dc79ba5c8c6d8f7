"""The vocabulary without a trace: the example scene, and what everyone can use."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import kernels
from scenes import vocabulary
from scenes.example_films import make_example, scene_in
from scenes.make import manim_settings
from scenes.orders import Example, Order
from scenes.theme import rgb, theme_named
from scenes.vocabulary import Box, Matrix, box_of, matrix_in, tiles_of
from tests.scenes.conftest import command

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "scenes" / "examples" / "tiled_product.py"


def test_the_example_renders_with_manim_alone(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "manim",
            "render",
            "-ql",
            "-s",
            "--media_dir",
            tmp_path,
            EXAMPLE,
            "TiledProduct",
        ],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name not in ("TRACE", "THEME", "BLOCK")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (picture,) = tmp_path.glob("images/**/*.png")
    with Image.open(picture) as image:
        pixels = np.asarray(image.convert("RGB")) / 255
    theme = theme_named("light")
    np.testing.assert_allclose(pixels[3, 3], rgb(theme.paper), atol=0.01)
    strong = abs(pixels - rgb(theme.hue("O").fill(0.5))).max(axis=-1) < 0.02
    assert strong.mean() > 0.01  # all tiles of C are in HBM, whole


def test_the_example_is_short_and_reads_no_trace() -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 40
    assert "kernels" not in text


def test_the_example_shows_every_word_that_can_be_seen() -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    shown = {
        "Memory", "Slot", "Box", "matrix_in", "tiles_of", "BlockGrid", "ZoomLines", "RunBlock", "MoveTile", "FillCells",
        "PointAt", "Rise", "ring", "Drop", "Caption",
    }  # fmt: skip
    assert {word for word in vocabulary.__all__ if f"v.{word}(" in text or f"v.{word}," in text} >= shown


def test_the_example_adds_up_to_the_product_of_its_matrices(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The tiles it writes, put together, are C = A B."""
    monkeypatch.setenv("THEME", "light")
    with manim_settings(tmp_path, "l", dry_run=True):
        scene = scene_in(EXAMPLE)()
        scene.construct()
    tiles = {
        name: [
            m for m in scene.mobjects if isinstance(m, Matrix) and m.style == "numbers" and box.holds(m.box)
        ]
        for name, box in zip("ABC", (Box(4.2 * n - 5.5, 3.2, 2.9, 2.1) for n in range(3)), strict=True)
    }
    assert [len(found) for found in tiles.values()] == [4, 4, 4]
    A, B, C = (np.block([[a.values, b.values], [c.values, d.values]]) for a, b, c, d in tiles.values())
    np.testing.assert_array_equal(C, A @ B)


def test_the_example_has_a_film_in_each_theme(tmp_path: Path) -> None:
    order = Example("tiled-product", EXAMPLE, "dark", "l", tmp_path)
    make_example(order, order.key())
    assert order.is_made(order.key())
    assert not Example("tiled-product", EXAMPLE, "light", "l", tmp_path).is_made(order.key())
    assert {path.name for path in tmp_path.iterdir()} == {"dark.mp4", "poster-dark.png", ".dark.key"}
    with Image.open(order.poster) as poster:
        corner = np.asarray(poster.convert("RGB"))[3, 3] / 255
    np.testing.assert_allclose(corner, rgb(theme_named("dark").paper), atol=0.02)


def test_all_films_are_those_of_recordings_and_of_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Order] = []
    monkeypatch.setattr("scenes.__main__.render", lambda orders, *_: made.extend(orders) or [])
    assert command("--theme", "dark").exit_code == 0
    assert {order.recording for order in made} == {*kernels.recordings(), "tiled-product"}
    made.clear()
    assert command("fa1", "--theme", "dark").exit_code == 0
    assert [order.recording for order in made] == ["fa1"]


def test_every_word_of_the_vocabulary_says_what_it_is() -> None:
    for name in vocabulary.__all__:
        assert inspect.getdoc(getattr(vocabulary, name)), name


@pytest.mark.usefixtures("manim_at_rest")
def test_a_matrix_shows_numbers_where_they_fit_and_a_heat_map_where_not() -> None:
    theme = theme_named("dark")
    box = Box(0, 0, 2, 1)
    assert matrix_in(box, [[1, -2], [3, 4]], "Q", theme).texts == ("1", "−2", "3", "4")
    assert matrix_in(box, [[1, -2.5]], "Q", theme).texts == ("1.0", "−2.5")
    assert matrix_in(box, [[1, -2]], "Q", theme, decimals=2).texts == ("1.00", "−2.00")
    assert matrix_in(Box(0, 0, 1, 1), np.eye(30), "Q", theme).style == "heat"


def test_tiles_fill_a_box_row_by_row() -> None:
    assert box_of(2, 4, 0.5, (-1, 1)) == Box(-1, 1, 2, 1)
    first, second, third, fourth = tiles_of(Box(-1, 1, 2, 1), 2, 2)
    assert (first, second, third) == (Box(-1, 1, 1, 0.5), Box(0, 1, 1, 0.5), Box(-1, 0.5, 1, 0.5))
    assert (fourth.right, fourth.bottom) == (1, 0)
