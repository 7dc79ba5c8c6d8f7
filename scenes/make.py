"""One film: played, encoded, and put in its place wholly or not at all."""

from __future__ import annotations

import errno
import fcntl
import importlib
import io
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import av
from manim import config, tempconfig
from manim.manager import Manager
from PIL import Image

from scenes.errors import SceneError
from scenes.film import Film, FilmStep, step_list_json
from scenes.orders import QUALITIES, ROOT, Order, check, open_trace
from scenes.story import Updated
from scenes.theme import theme_named


def film_of(order: Order, played: Callable[[int, int], None] = lambda done, of: None) -> Film:
    """The scene that plays an order's trace; SceneError if none can."""
    trace = open_trace(order.trace)
    check(trace, order.window)
    scene = scene_for(trace.kernel)
    return scene(trace=trace, theme=theme_named(order.theme), window=order.window, played=played)


def scene_for(kernel: str) -> type[Film]:
    """The scene in ``scenes/<kernel>.py`` that plays traces of `kernel`; SceneError if there is none."""
    module = importlib.import_module(f"scenes.{kernel}")
    for scene in vars(module).values():
        if (
            isinstance(scene, type)
            and issubclass(scene, Film)
            and scene is not Film
            and scene.score.kernel == kernel
        ):
            return scene
    raise SceneError(f"scenes/{kernel}.py has no Film whose score is for {kernel!r}: write one")


@contextmanager
def clear_errors(folder: Path) -> Iterator[None]:
    """Turn what a full disk or a folder that cannot be written raises into one SceneError."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, OSError):
            cause = cause.__cause__
        if cause is None:
            raise
        if cause.errno in (errno.ENOSPC, errno.EDQUOT):
            raise SceneError(f"no space is left for films in {folder}: free some and render again") from error
        reason = os.strerror(cause.errno) if cause.errno else str(cause)
        raise SceneError(f"films cannot be written to {folder} ({reason}): choose another --out") from error


@contextmanager
def workplace(folder: Path, theme: str) -> Iterator[Path]:
    """A folder beside the films to work in, gone afterwards; also those that killed processes left.

    If the work fails, folders made for it are gone, too.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    with clear_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob(".making-*"):
            if not _is_alive(int(left.name.split("-")[-1].split(".")[0])):
                shutil.rmtree(left, ignore_errors=True)
        place = Path(tempfile.mkdtemp(prefix=f".making-{theme}-{os.getpid()}.", dir=folder))
    try:
        with clear_errors(folder):
            yield place
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        for path in made:
            with suppress(OSError):
                path.rmdir()
        raise
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@contextmanager
def manim_settings(place: Path, quality: str, **more: Any) -> Iterator[None]:
    """Manim set up as ``manim.cfg`` says, for one film in a folder, whatever the current folder is."""
    size = QUALITIES[quality]
    with tempconfig({}):
        config.digest_file(ROOT / "manim.cfg")
        with tempconfig(
            {
                "media_dir": str(place),
                "pixel_width": size.width,
                "pixel_height": size.height,
                "frame_rate": size.rate,
                **more,
            }
        ):
            yield


def make(order: Order, key: str, played: Callable[[int, int], None] = lambda done, of: None) -> None:
    """Make one film with its poster and lists; `played` is told how many steps of how many are.

    Raises SceneError if the folder cannot be written or the disk is full; nothing half-written is left then.
    """
    with workplace(order.folder, order.name) as place, manim_settings(place, order.quality, **_clear(order)):
        film = film_of(order, played)
        Manager(film).render()
        steps = film.step_list
        rate = float(config.frame_rate)
        made = film.writer.movie_file_path
        (place / "poster.png").write_bytes(_poster(made, film, steps))
        texts = {
            "steps.json": step_list_json(rate, steps),
            "chapters.vtt": chapters(steps, rate),
            "captions.vtt": captions(steps, rate),
        }
        for name, text in texts.items():
            (place / name).write_text(text, encoding="utf-8")
        put_in_place(order, key, (Path(made), *(place / name for name in ("poster.png", *texts))))


def put_in_place(order: Order, key: str, files: Sequence[Path]) -> None:
    """Move what was made to `order.files`, in their order, and note for what `key`.

    Until that note stands the film counts as not made. Others who make the same film wait meanwhile.
    """
    folder = os.open(order.folder, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            order.key_file.unlink()
        for made, target in zip(files, order.files, strict=True):
            os.replace(made, target)
        note = files[-1].with_name("note")
        note.write_text(order.note(key))
        os.replace(note, order.key_file)
    finally:
        os.close(folder)


def _clear(order: Order) -> dict[str, Any]:
    """Manim's settings for a film with nothing behind it; WebM, since MP4 has no transparency."""
    return {"transparent": True, "format": "webm", "verbosity": "ERROR"} if order.transparent else {}


def still(order: Order, step: str) -> Path:
    """A picture of how things are when a step is over, as a PNG beside the films."""
    with (
        workplace(order.folder, order.name) as place,
        manim_settings(place, order.quality, dry_run=True, **_clear(order)),
    ):
        film = film_of(order)
        film.setup()
        ids = [f"s{n:02}" for n in range(film.step_count)]
        if step not in ids:
            raise SceneError(f"there is no step {step!r} in this film: choose one of {ids[0]} to {ids[-1]}")
        film.show_step(ids.index(step))
        film.renderer.update_frame(film)
        target = order.folder / f"{step}-{order.name}.png"
        picture = Image.fromarray(film.renderer.get_frame())
        (picture if order.transparent else picture.convert("RGB")).save(place / "still.png")
        os.replace(place / "still.png", target)
    return target


def _poster(video: Path, film: Film, steps: Sequence[FilmStep]) -> bytes:
    """The last frame of the first step in which a carry changes, or of the film."""
    changing = [
        n
        for n, picture in enumerate(picture for story in film.stories for picture in story.pictures)
        for phase in picture.phases
        if isinstance(phase[0], Updated)
    ]
    step = steps[changing[0] if changing else -1]
    wanted = step.first_frame + step.frames - 1
    return png_of_frame(video, wanted)


def png_of_frame(video: Path, wanted: int) -> bytes:
    """One frame of a video as a PNG."""
    with av.open(str(video)) as container:
        for n, frame in enumerate(container.decode(video=0)):
            if n == wanted:
                picture = io.BytesIO()
                Image.fromarray(frame.to_ndarray(format="rgb24")).save(picture, "PNG")
                return picture.getvalue()
    raise AssertionError(f"{video} has no frame {wanted}")


def clock(seconds: float) -> str:
    """A moment as WebVTT writes it."""
    milliseconds = round(seconds * 1000)
    hours, rest = divmod(milliseconds, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    return f"{hours:02}:{minutes:02}:{rest // 1000:02}.{rest % 1000:03}"


def captions(steps: Sequence[FilmStep], rate: float) -> str:
    """The captions of a film, one cue for each step, as WebVTT."""
    return _vtt(
        [(step.id, step.first_frame, step.first_frame + step.frames, step.caption) for step in steps], rate
    )


def chapters(steps: Sequence[FilmStep], rate: float) -> str:
    """The chapters of a film, one for each run of steps in the same section, as WebVTT."""
    cues: list[tuple[str, int, int, str]] = []
    for step in steps:
        end = step.first_frame + step.frames
        if cues and cues[-1][3] == step.section:
            cues[-1] = (cues[-1][0], cues[-1][1], end, step.section)
        else:
            cues.append((step.id, step.first_frame, end, step.section))
    return _vtt(cues, rate)


def _vtt(cues: Sequence[tuple[str, int, int, str]], rate: float) -> str:
    parts = ["WEBVTT"]
    for name, first, end, text in cues:
        escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        parts.append(f"{name}\n{clock(first / rate)} --> {clock(end / rate)}\n{escaped}")
    return "\n\n".join(parts) + "\n"
