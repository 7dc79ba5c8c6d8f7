"""What is to be rendered: a film of a trace in one theme, and whether it is there already."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import kernels
from kernels.trace import Trace
from scenes.errors import SceneError
from scenes.story import Window, check_length

ROOT = Path(__file__).resolve().parent.parent
THEMES = ("light", "dark")

_ALSO = (
    "manim.cfg",
    "kernels/layout.py",
    "kernels/trace/version2.py",
    "kernels/manifest.py",
    "kernels/trace_file.py",
)


@dataclass(frozen=True)
class Quality:
    """The size of a film in pixels and its frames a second."""

    width: int
    height: int
    rate: int


QUALITIES = {
    "l": Quality(854, 480, 15),
    "m": Quality(1280, 720, 30),
    "h": Quality(1920, 1080, 30),
    "k": Quality(3840, 2160, 30),
}


@dataclass(frozen=True)
class Order:
    """One film to be made: of the trace in a file, under a recording's name, in one theme, into a folder.

    With a `window` only of those of its steps. A `transparent` film has nothing behind the figure's panels.
    """

    recording: str
    trace: Path
    theme: str
    quality: str
    folder: Path
    window: Window | None = None
    transparent: bool = False

    @property
    def name(self) -> str:
        """What its files are called."""
        return f"{self.theme}-transparent" if self.transparent else self.theme

    @property
    def film(self) -> Path:
        """Where the film goes."""
        return self.folder / f"{self.name}.{'webm' if self.transparent else 'mp4'}"

    @property
    def poster(self) -> Path:
        """Where the film's poster goes."""
        return self.folder / f"poster-{self.name}.png"

    @property
    def key_file(self) -> Path:
        """Where it is noted what the film was made from, and what came of it."""
        return self.folder / f".{self.name}.key"

    @property
    def files(self) -> tuple[Path, ...]:
        """What making it leaves: the film, its poster and its lists."""
        beside = (self.folder / name for name in ("steps.json", "chapters.vtt", "captions.vtt"))
        return self.film, self.poster, *beside

    def key(self) -> str:
        """A hash of all that the film is made from: trace, sources, settings and the programs that draw it."""
        digest = hashlib.sha256()
        for path in (self.trace, *sorted((ROOT / "scenes").glob("*.py")), *(ROOT / name for name in _ALSO)):
            content = path.read_bytes() if path.is_file() else b""
            digest.update(f"{path.name} {len(content)}\n".encode() + content)
        programs = [f"{name} {version(name)}" for name in ("manim", "typst", "av", "pycairo")]
        digest.update(
            "\n".join(
                [self.name, self.quality, str(QUALITIES[self.quality]), str(self.window), *programs]
            ).encode()
        )
        return digest.hexdigest()

    def is_made(self, key: str) -> bool:
        """Whether the film is there, made from just this, and its files are still those that were made together."""
        there = all(path.is_file() for path in (*self.files, self.key_file))
        return there and self.key_file.read_text() == self.note(key)

    def note(self, key: str) -> str:
        """What stands in the key file of a film made for `key`: that, and hashes of its files."""
        return "\n".join([key, *(hashlib.sha256(path.read_bytes()).hexdigest() for path in self.files)])


@dataclass(frozen=True)
class Example(Order):
    """The film of an example scene, which tells of no trace: `trace` is the scene's own file."""

    @property
    def files(self) -> tuple[Path, ...]:
        """What making it leaves: the film and its poster."""
        return self.film, self.poster


def examples() -> dict[str, Path]:
    """The files of the example scenes, by the names of their films."""
    files = sorted((ROOT / "scenes" / "examples").glob("[!_]*.py"))
    return {file.stem.replace("_", "-"): file for file in files}


def has_scene(kernel: str) -> bool:
    """Whether there is a scene for traces of a kernel: it is the module of the kernel's name."""
    return (ROOT / "scenes" / f"{kernel}.py").is_file()


def open_trace(path: str | Path) -> Trace:
    """The trace in a file, of a kernel that has a declaration; SceneError if it is a plain kernel's."""
    trace = kernels.load(path)
    if isinstance(trace, Trace):
        return trace
    raise SceneError(
        f"{path} is a trace of the plain kernel {trace.name!r}, which cannot be filmed yet: look at it with "
        f"`python -m kernels show {path}`"
    )


def check(trace: Trace, window: Window | None = None) -> None:
    """Raise SceneError if no film can be made of a trace."""
    if not has_scene(trace.kernel):
        raise SceneError(
            f"there is no scene for traces of {trace.kernel!r}: write scenes/{trace.kernel}.py, or a scene of your own "
            "for `manim render`"
        )
    check_length(trace, window=window)


def window_of(text: str) -> Window:
    """The steps written as ``100:200``; SceneError if they are not written so."""
    first, colon, end = text.partition(":")
    if not colon or not first.isdigit() or not end.isdigit():
        raise SceneError(f"{text} is no range of steps: write it as 100:200")
    return int(first), int(end)


def cluster_of(text: str) -> str:
    """The address of the scheduler in ``dask://HOST:PORT``, as Dask wants it; SceneError if it is not written so."""
    scheme, separator, place = text.partition("://")
    host, colon, port = place.rpartition(":")
    if (scheme, separator, colon) == ("dask", "://", ":") and host and port.isdigit():
        return f"tcp://{place}"
    raise SceneError(f"{text} is no executor: write the address of a Dask scheduler as dask://HOST:PORT")
