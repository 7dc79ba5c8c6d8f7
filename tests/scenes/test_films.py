"""Films as they lie in their folder: their frames, their step lists, and when they are made again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

import kernels
from scenes.make import make
from scenes.orders import Order
from scenes.theme import THEMES, rgb, theme_named
from tests.scenes.conftest import Films, command

ROOT = Path(__file__).parents[2]
both_themes = pytest.mark.parametrize("theme", THEMES)


def presented(path: Path) -> list[int]:
    """The moment of each frame of a video as a viewer sees them, in frames."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert stream.average_rate is not None
        rate = float(stream.average_rate)
        return [
            round(float(frame.time) * rate) for frame in container.decode(stream) if frame.time is not None
        ]


@both_themes
def test_steps_tile_the_encoded_frames(films: Films, theme: str) -> None:
    shown = presented(films.video(theme))
    assert shown == list(range(films.steps["frames"]))
    first = 0
    for step in films.steps["steps"]:
        assert step["first_frame"] == first
        assert step["frames"] > 0
        first += step["frames"]
    assert first == len(shown)


@both_themes
def test_each_step_begins_with_a_keyframe(films: Films, theme: str) -> None:
    with av.open(str(films.video(theme))) as container:
        stream = container.streams.video[0]
        assert stream.average_rate is not None
        assert stream.time_base is not None
        keys = {
            round(float(packet.pts * stream.time_base * stream.average_rate))
            for packet in container.demux(stream)
            if packet.is_keyframe and packet.pts is not None
        }
    assert {step["first_frame"] for step in films.steps["steps"]} <= keys


def test_every_step_of_the_block_is_a_step_of_the_film(films: Films) -> None:
    opening, *steps = films.steps["steps"]
    assert (opening["id"], opening["trace_step"]) == ("s00", None)
    assert [step["trace_step"] for step in steps] == [step.index for step in films.trace.steps_of((0, 0, 0))]
    assert [step["id"] for step in steps] == [f"s{n:02}" for n in range(1, len(steps) + 1)]
    assert steps[0]["label"] == "load K₀, V₀"
    assert steps[1]["section"] == "j = 0, i = 0"


def test_step_lists_are_made_of_what_the_page_expects(films: Films) -> None:
    assert set(films.steps) == {"fps", "frames", "steps"}
    assert films.steps["fps"] == 15
    fields = {"id", "label", "caption", "first_frame", "frames", "section", "trace_step"}
    assert all(set(step) == fields and step["id"].isascii() for step in films.steps["steps"])


@both_themes
def test_films_are_h264_that_every_browser_plays(films: Films, theme: str) -> None:
    with av.open(str(films.video(theme))) as container:
        stream = container.streams.video[0]
        assert (stream.codec_context.name, stream.pix_fmt) == ("h264", "yuv420p")
        assert (stream.width, stream.height) == (854, 480)


@both_themes
def test_posters_show_the_theme(films: Films, theme: str) -> None:
    with Image.open(films.folder / f"poster-{theme}.png") as poster:
        corner = np.asarray(poster.convert("RGB"))[-4, 3] / 255
    np.testing.assert_allclose(corner, rgb(theme_named(theme).paper), atol=0.02)


def test_captions_and_chapters_cover_the_film(films: Films) -> None:
    for name, cues in (("captions", len(films.steps["steps"])), ("chapters", 5)):
        text = (films.folder / f"{name}.vtt").read_text(encoding="utf-8")
        assert text.startswith("WEBVTT\n")
        times = [line.split(" --> ") for line in text.splitlines() if "-->" in line]
        assert len(times) == cues
        assert times[0][0] == "00:00:00.000"
        assert all(before[1] == after[0] for before, after in pairwise(times))
        hours, minutes, seconds = map(float, times[-1][1].split(":"))
        assert 3600 * hours + 60 * minutes + seconds == pytest.approx(films.steps["frames"] / 15, abs=0.001)


def test_nothing_is_made_again_while_nothing_changes(films: Films, small_trace: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in films.folder.iterdir()}
    began = time.monotonic()
    result = command("--trace", small_trace, "--quality", "l", "--out", films.folder.parent)
    assert time.monotonic() - began < 2
    assert result.output.count("up to date") == 2
    assert {path: path.stat().st_mtime_ns for path in films.folder.iterdir()} == before


def test_a_film_is_out_of_date_when_what_it_is_made_of_changes(
    films: Films, small_trace: Path, tmp_path: Path
) -> None:
    order = Order("small", small_trace, "light", "l", films.folder)
    assert order.is_made(order.key())
    other = tmp_path / "small.trace"
    kernels.record("fa1", None, N=3, d=2, Br=3, Bc=2, batch_heads=2, seed=7, backend="cpu").save(other)
    for changed in (
        Order("small", other, "light", "l", films.folder),
        Order("small", small_trace, "light", "m", films.folder),
    ):
        assert not changed.is_made(changed.key())


def test_two_renders_of_one_trace_are_the_same(films: Films, small_trace: Path, tmp_path: Path) -> None:
    make(Order("small", small_trace, "light", "l", tmp_path), "key")
    assert (tmp_path / "steps.json").read_bytes() == (films.folder / "steps.json").read_bytes()
    for ours, theirs in zip(frames_of(tmp_path / "light.mp4"), frames_of(films.video("light")), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def frames_of(path: Path) -> list[np.ndarray]:  # type: ignore[type-arg]
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="gray")[::4, ::4] for frame in container.decode(video=0)][::10]


def test_a_film_that_is_killed_leaves_nothing_half_made(small_trace: Path, tmp_path: Path) -> None:
    arguments = ["render", "--trace", small_trace, "--theme", "light", "--quality", "l", "--out", tmp_path]
    process = subprocess.Popen(
        [sys.executable, "-m", "scenes", *map(str, arguments)], cwd=ROOT, stderr=subprocess.DEVNULL
    )
    folder = tmp_path / "small"
    while process.poll() is None and not list(folder.glob(".making-*/videos/**/*.mp4")):
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert [path.name for path in folder.iterdir() if not path.name.startswith(".making-")] == []
    assert command(*arguments[1:]).exit_code == 0
    assert not list(folder.glob(".making-*"))
    assert (folder / "light.mp4").is_file()


def test_a_still_shows_one_step(films: Films, small_trace: Path, tmp_path: Path) -> None:
    result = command(
        "--trace",
        small_trace,
        "--quality",
        "l",
        "--theme",
        "light",
        "--step",
        "s05",
        "--still",
        "--out",
        tmp_path,
    )
    assert result.exit_code == 0, result.output
    step = films.steps["steps"][5]
    with (
        Image.open(tmp_path / "small" / "s05-light.png") as image,
        av.open(str(films.video("light"))) as container,
    ):
        still = np.asarray(image.convert("L"), float)
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    last = np.asarray(Image.fromarray(frames[step["first_frame"] + step["frames"] - 1]).convert("L"), float)
    first = np.asarray(Image.fromarray(frames[0]).convert("L"), float)
    assert abs(still - last).mean() < 4
    assert abs(still - first).mean() > 8


def test_a_transparent_still_has_nothing_behind_the_panels(small_trace: Path, tmp_path: Path) -> None:
    arguments = ["--trace", small_trace, "--quality", "l", "--theme", "dark", "--step", "s05", "--still"]
    assert command(*arguments, "--transparent", "--out", tmp_path).exit_code == 0
    with Image.open(tmp_path / "small" / "s05-dark-transparent.png") as image:
        alpha = np.asarray(image)[..., 3]
    assert alpha[3, 3] == 0
    assert alpha[60, 427] == 255  # in HBM
    assert (
        Order("small", small_trace, "dark", "l", tmp_path, transparent=True).film.name
        == "dark-transparent.webm"
    )


def test_manim_render_makes_the_same_step_list(films: Films, small_trace: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "manim",
            "render",
            "-ql",
            "--media_dir",
            tmp_path,
            "scenes/fa1.py",
            "FlashAttention1",
        ],
        cwd=ROOT,
        env={**os.environ, "TRACE": str(small_trace), "THEME": "light"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (video,) = tmp_path.glob("videos/**/FlashAttention1.mp4")
    steps = json.loads(video.with_name("steps.json").read_text(encoding="utf-8"))
    assert steps == films.steps
    assert presented(video) == list(range(steps["frames"]))
