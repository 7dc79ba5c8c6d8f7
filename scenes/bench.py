"""How long films take to render against encoding their frames alone, and how large they are."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from pathlib import Path

import av
import numpy as np
from manim._config.video_encoder import VideoEncoderSpec
from manim.scene.video_segment_encoder import VideoSegmentEncoder
from manim.typing import RGBAPixelArray

from scenes.orders import QUALITIES, ROOT

_DEFAULT = (("crf", "23"),)  # what Manim passes to libx264 unless told otherwise
_AT_ONCE = 48  # frames decoded before the clock runs: 400 MB at 1080p


@dataclass(frozen=True)
class Effort:
    """Seconds on the clock, and seconds that processors worked."""

    wall: float
    cpu: float

    def __add__(self, other: Effort) -> Effort:
        return Effort(self.wall + other.wall, self.cpu + other.cpu)


@dataclass(frozen=True)
class Encoded:
    """What encoding the frames of a film alone, with Manim's default settings, took and came to."""

    effort: Effort
    size: int
    frames: int


def render_effort(recordings: Sequence[str], themes: str, quality: str, jobs: int, out: Path) -> Effort:
    """Render films cold, in a process of its own, as the command line does; raises CalledProcessError if it fails."""
    began, before = time.monotonic(), _children()
    subprocess.run(
        [
            sys.executable, "-m", "scenes", "render", *recordings, "--theme", themes, "--quality", quality,
            "--jobs", str(jobs), "--force", "--out", str(out),
        ],
        cwd=ROOT,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return Effort(time.monotonic() - began, _children() - before)


def encode_alone(film: Path, quality: str, out: Path, threads: int | None = None) -> Encoded:
    """Encode the frames of a finished film with Manim's own encoder and default settings, and nothing else.

    The clock stands still while frames are decoded. With `threads` the encoder uses no more.
    """
    size = QUALITIES[quality]
    spec = VideoEncoderSpec(
        codec="libx264",
        pixel_format="yuv420p",
        width=size.width,
        height=size.height,
        frame_rate=Fraction(size.rate),
        container_format="mp4",
        options=(*_DEFAULT, *((("threads", str(threads)),) if threads else ())),
    )
    effort, frames = Effort(0, 0), 0
    encoder = VideoSegmentEncoder(target=out, spec=spec)
    source = _frames(film)
    while batch := list(islice(source, _AT_ONCE)):
        began, before = time.monotonic(), time.process_time()
        for frame in batch:
            encoder.write_frame(frame)
        effort += Effort(time.monotonic() - began, time.process_time() - before)
        frames += len(batch)
    began, before = time.monotonic(), time.process_time()
    encoder.finish()
    effort += Effort(time.monotonic() - began, time.process_time() - before)
    return Encoded(effort, out.stat().st_size, frames)


def _frames(film: Path) -> Iterator[RGBAPixelArray]:
    with av.open(str(film)) as container:
        for frame in container.decode(video=0):
            pixels: RGBAPixelArray = np.ascontiguousarray(frame.to_ndarray(format="rgba"))
            yield pixels


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def bench(recordings: Sequence[str], quality: str, out: Path) -> Iterable[str]:
    """Lines of the report: fa1 in the light theme on its own, then all films in both themes."""
    one = render_effort(["fa1"], "light", quality, 1, out / "one")
    film = out / "one" / "fa1" / "light.mp4"
    alone = encode_alone(film, quality, out / "alone.mp4")
    yield f"fa1, light, {quality}, one job: {one.wall:.1f} s, {one.cpu:.1f} s of processor time"
    yield (
        f"  encoding its {alone.frames} frames alone: {alone.effort.wall:.1f} s, "
        f"{alone.effort.cpu:.1f} s of processor time"
    )
    yield f"  ratio {one.wall / alone.effort.wall:.2f} (processor time {one.cpu / alone.effort.cpu:.2f}), wanted: 1.5"
    yield _sizes(film, alone, quality)

    cores = os.cpu_count() or 1
    every = render_effort(recordings, "both", quality, cores, out / "all")
    films = [out / "all" / name / f"{theme}.mp4" for name in recordings for theme in ("light", "dark")]
    total, single = Effort(0, 0), []
    for film in films:
        single.append(encode_alone(film, quality, out / "alone.mp4", threads=1))
        total += single[-1].effort
    share = total.wall / cores
    yield f"all {len(films)} films, {quality}, {cores} jobs: {every.wall:.1f} s, {every.cpu:.1f} s of processor time"
    yield (
        f"  encoding their {sum(each.frames for each in single)} frames alone on one thread: {total.wall:.1f} s, "
        f"over {cores} cores {share:.1f} s"
    )
    yield f"  ratio {every.wall / share:.2f} (processor time {every.cpu / total.cpu:.2f}), wanted: 1.5"
    for film, each in zip(films, single, strict=True):
        yield f"  {film.parent.name} {film.stem}:" + _sizes(film, each, quality)


def _sizes(film: Path, alone: Encoded, quality: str) -> str:
    size, minutes = film.stat().st_size, alone.frames / QUALITIES[quality].rate / 60
    megabytes, default = size / 1e6, alone.size / 1e6
    return (
        f"  {megabytes:.2f} MB, with default settings {default:.2f} MB; {megabytes / minutes:.2f} MB a minute"
    )
