"""What the benchmark compares films with."""

from __future__ import annotations

from pathlib import Path

from scenes.bench import Effort, encode_alone
from tests.scenes.conftest import Films


def test_encoding_alone_encodes_all_frames_and_nothing_else(films: Films, tmp_path: Path) -> None:
    alone = encode_alone(films.video("light"), "l", tmp_path / "alone.mp4", threads=1)
    assert alone.frames == films.steps["frames"]
    assert alone.size == (tmp_path / "alone.mp4").stat().st_size > 10_000
    assert alone.effort.cpu > 0
    assert Effort(1, 2) + Effort(3, 4) == Effort(4, 6)


def test_films_are_small(films: Films) -> None:
    minutes = films.steps["frames"] / films.steps["fps"] / 60
    for theme in ("light", "dark"):
        assert films.video(theme).stat().st_size / minutes < 4_000_000
