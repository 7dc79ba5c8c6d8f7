"""The films of the example scenes, which use the vocabulary without a trace: made like Manim makes them, and kept."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from manim import Scene
from manim.manager import Manager
from manim.renderer.cairo_renderer import CairoRenderer

from scenes.camera import FigureCamera, FilmWriter
from scenes.make import manim_settings, png_of_frame, put_in_place, workplace
from scenes.orders import Order

_POSTER_AT = 0.375  # of the film: the second of four blocks is at work


def make_example(order: Order, key: str, played: Callable[[int, int], None] = lambda done, of: None) -> None:
    """Make the film of an example scene with its poster; `played` is told when its only part is there.

    Raises SceneError if the folder cannot be written or the disk is full; nothing half-written is left then.
    """
    played(0, 1)
    with (
        workplace(order.folder, order.name) as place,
        manim_settings(place, order.quality),
        _theme(order.theme),
    ):
        scene = scene_in(order.trace)(
            renderer=CairoRenderer(file_writer_class=FilmWriter, camera_class=FigureCamera)
        )
        Manager(scene).render()
        writer = scene.renderer.file_writer
        assert isinstance(writer, FilmWriter)
        film, frames = Path(writer.movie_file_path), sum(writer.segment_frames)
        (place / "poster.png").write_bytes(png_of_frame(film, int(frames * _POSTER_AT)))
        put_in_place(order, key, (film, place / "poster.png"))
    played(1, 1)


def scene_in(path: Path) -> type[Scene]:
    """The scene that an example's file defines."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (scene,) = (
        each for each in vars(module).values() if isinstance(each, type) and each.__module__ == path.stem
    )
    assert issubclass(scene, Scene)
    return scene


@contextmanager
def _theme(name: str) -> Iterator[None]:
    """THEME in the environment, where an example looks for it."""
    before = os.environ.get("THEME")
    os.environ["THEME"] = name
    try:
        yield
    finally:
        if before is None:
            del os.environ["THEME"]
        else:
            os.environ["THEME"] = before
