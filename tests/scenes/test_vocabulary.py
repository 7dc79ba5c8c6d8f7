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

from scenes import vocabulary
from scenes.theme import rgb, theme_named
from scenes.vocabulary import Box, matrix_in

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
    strong = abs(pixels - rgb(theme.hue("O").fill(1))).max(axis=-1) < 0.02
    assert strong.mean() > 0.01  # all tiles of C are in HBM, whole


def test_the_example_is_short_and_reads_no_trace() -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 40
    assert "kernels" not in text


def test_every_word_of_the_vocabulary_says_what_it_is() -> None:
    for name in vocabulary.__all__:
        assert inspect.getdoc(getattr(vocabulary, name)), name


@pytest.mark.usefixtures("manim_at_rest")
def test_a_matrix_shows_numbers_where_they_fit_and_a_heat_map_where_not() -> None:
    theme = theme_named("dark")
    assert matrix_in(Box(0, 0, 2, 1), [[1, -2], [3, 4]], "Q", theme).texts == (
        "1.00",
        "−2.00",
        "3.00",
        "4.00",
    )
    assert matrix_in(Box(0, 0, 1, 1), np.eye(30), "Q", theme).style == "heat"
