"""A few stills against pictures kept beside this file.

Another Cairo or FreeType smooths edges otherwise: so both are made small, where an edge is a fraction of a pixel, and a
still may differ a little everywhere but nowhere much. Manim's own comparison skips itself below Cairo 1.18 instead.

``GOLDEN=new python -m pytest tests/scenes/test_golden.py`` keeps new pictures: look at them before you commit them.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFilter

import kernels
from scenes.make import manim_settings, scene_for
from scenes.theme import theme_named

HERE = Path(__file__).parent / "golden"
SIZE = 320, 180
STILLS = [
    ("fa1", "light", 4),
    ("fa1-n64", "dark", 3),
    ("fa2-causal", "light", 5),
    ("flash-decoding", "dark", 29),
    ("online-softmax", "light", 10),
]


def still(recording: str, theme: str, step: int, letters: Path) -> Image.Image:
    trace = kernels.recorded(recording)
    with manim_settings(letters, "m", dry_run=True):
        film = scene_for(trace.kernel)(trace=trace, theme=theme_named(theme))
        film.setup()
        film.show_step(step)
        film.renderer.update_frame(film)
        return Image.fromarray(film.renderer.get_frame()).convert("RGB").resize(SIZE, Image.Resampling.BOX)


def differs(ours: Image.Image, kept: Image.Image) -> bool:
    gap = abs(np.asarray(ours, float) - np.asarray(kept, float)).max(axis=-1)
    return bool(gap.mean() > 1.5 or np.quantile(gap, 0.999) > 40)


@pytest.mark.parametrize(("recording", "theme", "step"), STILLS, ids=str)
def test_a_still_looks_as_it_did(
    recording: str, theme: str, step: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    ours = still(recording, theme, step, tmp_path_factory.getbasetemp() / "letters")
    path = HERE / f"{recording}-{theme}-{step}.png"
    if os.environ.get("GOLDEN") == "new":
        path.parent.mkdir(exist_ok=True)
        ours.save(path)
    with Image.open(path) as kept:
        assert not differs(ours, kept)


def test_the_comparison_bears_smoothing_but_no_change() -> None:
    with Image.open(HERE / "fa1-light-4.png") as kept:
        blurred = kept.convert("RGB").filter(ImageFilter.GaussianBlur(0.8))
        smoothed = Image.blend(kept.convert("RGB"), blurred, 0.15)
        assert not differs(smoothed, kept)
        changed = kept.copy()
        changed.paste(kept.crop((100, 100, 140, 120)), (180, 100))  # other numbers in one slot
        assert differs(changed, kept)
