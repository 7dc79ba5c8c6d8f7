"""A film as a page sees it: a folder with the videos and posters of one recording, and its list of steps."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path

from kernels.trace import Step, Trace

THEMES = ("light", "dark")
STILL_WIDTH = 640  # of a step's still, in pixels


class FilmError(Exception):
    """A film is missing, cut short, or not one of this recording."""


@dataclass(frozen=True)
class FilmStep:
    """One entry of `steps.json`: where it stands in the film, and which step of the trace it shows (None: none)."""

    id: str
    label: str
    caption: str
    first_frame: int
    frames: int
    trace_step: int | None


@dataclass(frozen=True)
class Film:
    """The film of one recording. `width` and `height` are those of its posters, in pixels."""

    recording: str
    folder: Path
    fps: float
    frames: int
    steps: tuple[FilmStep, ...]
    width: int
    height: int

    @property
    def videos(self) -> tuple[Path, ...]:
        """The film in each theme."""
        return tuple(self.folder / f"{theme}.mp4" for theme in THEMES)

    @property
    def posters(self) -> tuple[Path, ...]:
        """The poster in each theme."""
        return tuple(self.folder / f"poster-{theme}.png" for theme in THEMES)


def load_film(recording: str, films: Path) -> Film:
    """The film of `recording` in the folder `films`.

    Raises FilmError if a file is missing, or if the steps leave a gap.
    """
    folder = films / recording
    try:
        plain = json.loads((folder / "steps.json").read_text(encoding="utf-8"))
        width, height = _png_size(folder / "poster-light.png")
    except OSError as error:
        raise FilmError(
            f"the film of {recording} is not in {folder} ({error.strerror}: {error.filename}): "
            f"make it with `python -m scenes render {recording}`"
        ) from error
    names = FilmStep.__dataclass_fields__
    steps = tuple(FilmStep(**{name: entry[name] for name in names}) for entry in plain["steps"])
    film = Film(recording, folder, plain["fps"], plain["frames"], steps, width, height)
    _check_tiling(film)
    for file in (*film.videos, *film.posters):
        if not file.is_file():
            raise FilmError(f"{file} is missing: make it with `python -m scenes render {recording}`")
    return film


def traced_step(film: Film, trace: Trace, shown: FilmStep) -> Step | None:
    """The step of the trace that `shown` shows; for one that shows none, an opening, the next one that is shown."""
    following = film.steps[film.steps.index(shown) :]
    indices = [step.trace_step for step in following if step.trace_step is not None]
    return trace.steps[indices[0]] if indices else None


def _check_tiling(film: Film) -> None:
    frame = 0
    for step in film.steps:
        if step.first_frame != frame or step.frames < 1:
            raise FilmError(
                f"{film.folder}/steps.json: {step.id} should start at frame {frame} and last one or more"
            )
        frame += step.frames
    if frame != film.frames:
        raise FilmError(
            f"{film.folder}/steps.json: the steps end at frame {frame}, the film at {film.frames}"
        )


def _png_size(file: Path) -> tuple[int, int]:
    with file.open("rb") as png:
        head = png.read(24)
    width, height = struct.unpack(">II", head[16:24])
    return width, height
