"""Gather what the pages refer to and git does not keep: films, snapshots, the style of formulas, offline search.

`python -m docs.gather [--films build/films] [--into docs]`

Writes `films/` and `assets/vendor/` below `--into`; a file is touched only if its content changed.
"""

from __future__ import annotations

import base64
import io
import re
import shutil
from pathlib import Path

import av
import click
from PIL import Image

import kernels
from docs.film import STILL_WIDTH, Film, FilmError, load_film
from docs.snapshots import snapshots_script

NODE_MODULES = Path(__file__).parents[1] / "node_modules"

ASSETS = Path(__file__).parent / "assets"
PLAYER = ("player-film", "player-snapshots", "player-row", "player-list", "player")  # in the order they run

POSTER_WIDTH, SMALL_WIDTH = 720, 520  # in pixels, in a player and on the home page
CARD, CARD_OF = (1200, 630), "fa1"  # the size of the social card in pixels, and the film it shows

# The fonts of KaTeX that the formulas use. Firefox keeps fonts of file:// pages apart, so the style sheet carries them.
FONTS = ("Main-Regular", "Math-Italic", "Size1-Regular", "Size2-Regular", "Size3-Regular", "Size4-Regular")


@click.command(help=(__doc__ or "").splitlines()[0])
@click.option("--films", type=click.Path(path_type=Path), default=Path("build/films"), show_default=True)
@click.option("--into", type=click.Path(path_type=Path), default=Path("docs"), show_default=True)
def main(films: Path, into: Path) -> None:
    """Gather everything below `into`."""
    try:
        gather(films, into)
    except (OSError, FilmError) as error:
        raise click.ClickException(str(error)) from error


def gather(films: Path, into: Path) -> None:
    """Mirror each film in `films` that shows a recording, with its snapshots, or nothing but itself.

    Also copy what npm brought.
    """
    recordings = set(kernels.recordings())
    names = sorted(folder.name for folder in films.iterdir() if folder.name in recordings)
    for name in names:
        _mirror_film(load_film(name, films), into / "films" / name)
    others = (folder for folder in films.iterdir() if folder.is_dir() and folder.name not in recordings)
    examples = [folder for folder in others if not (folder / "steps.json").is_file()]
    for folder in examples:
        _mirror_example(folder, into / "films" / folder.name)
    known = {*names, *(folder.name for folder in examples)}
    for stale in {folder.name for folder in (into / "films").glob("*")} - known:
        shutil.rmtree(into / "films" / stale)
    vendor = into / "assets" / "vendor"
    if CARD_OF in names:
        _write(vendor / "social-card.png", social_card(load_film(CARD_OF, films)))
    _write(vendor / "player.js", player_script().encode())
    _write(vendor / "katex.css", katex_css().encode())
    _write(vendor / "iframe-worker.js", (NODE_MODULES / "iframe-worker" / "shim" / "index.js").read_bytes())


def _mirror_film(film: Film, folder: Path) -> None:
    for video in film.videos:
        _write(folder / video.name, video.read_bytes())
    for poster in film.posters:
        name = f"{poster.stem}.webp"
        _write(folder / name, _smaller(poster, POSTER_WIDTH))
        _write(folder / f"small-{name}", _smaller(poster, SMALL_WIDTH))
    _take_stills(film, folder / "stills")
    script = snapshots_script(film, kernels.recorded(film.recording))
    _write(folder / "snapshots.js", script.encode())


def _mirror_example(film: Path, folder: Path) -> None:
    """A film of a scene that is told by no trace: it has no steps."""
    for video in film.glob("*.mp4"):
        _write(folder / video.name, video.read_bytes())
    for poster in film.glob("poster-*.png"):
        _write(folder / f"{poster.stem}.webp", _smaller(poster, POSTER_WIDTH))


def _smaller(poster: Path, width: int) -> bytes:
    """The poster as WebP, about as wide as a page shows it: it is loaded with the page, the film only when near."""
    with Image.open(poster) as picture:
        return _webp(picture, width, quality=55)


def _webp(picture: Image.Image, width: int, quality: int) -> bytes:
    small = io.BytesIO()
    picture.thumbnail((width, width))
    picture.save(small, "WEBP", quality=quality, method=6)
    return small.getvalue()


def social_card(film: Film) -> bytes:
    """The picture that stands for the site where an address of it is shared: a film's poster on its own paper."""
    with Image.open(film.posters[0]) as poster:
        picture = poster.convert("RGB")
    picture.thumbnail(CARD)
    card = Image.new("RGB", CARD, picture.getpixel((0, 0)))
    card.paste(picture, ((CARD[0] - picture.width) // 2, (CARD[1] - picture.height) // 2))
    png = io.BytesIO()
    card.quantize(128).save(png, "PNG", optimize=True)
    return png.getvalue()


def _take_stills(film: Film, folder: Path) -> None:
    """How each step ends, as a picture: the last frame of each, from the light film. Old ones stay if none is older."""
    wanted = {f"{step.id}.webp": step.first_frame + step.frames - 1 for step in film.steps}
    video = film.videos[0]
    there = {file.name for file in folder.glob("*") if file.stat().st_mtime > video.stat().st_mtime}
    if there == set(wanted):
        return
    shutil.rmtree(folder, ignore_errors=True)
    with av.open(str(video)) as container:
        stream = container.streams.video[0]
        for name, number in wanted.items():
            assert stream.time_base is not None
            container.seek(int(number / film.fps / stream.time_base), stream=stream)
            for frame in container.decode(stream):
                if frame.time is not None and frame.time >= (number - 0.5) / film.fps:
                    _write(
                        folder / name,
                        _webp(Image.fromarray(frame.to_ndarray(format="rgb24")), STILL_WIDTH, quality=50),
                    )
                    break


def player_script() -> str:
    """The scripts of the player as one, without indentation and lines that are only comments."""
    text = "\n".join((ASSETS / f"{name}.js").read_text(encoding="utf-8") for name in PLAYER)
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//")) + "\n"


def katex_css() -> str:
    """KaTeX's own style sheet with the fonts of FONTS inside it, and no other font."""
    dist = NODE_MODULES / "katex" / "dist"
    css = (dist / "katex.min.css").read_text(encoding="utf-8")

    def embed(face: re.Match[str]) -> str:
        name = re.search(r"url\(fonts/KaTeX_([\w-]+)\.woff2\)", face[0])
        if name is None or name[1] not in FONTS:
            return ""
        font = base64.b64encode((dist / "fonts" / f"KaTeX_{name[1]}.woff2").read_bytes()).decode()
        source = f'src:url(data:font/woff2;base64,{font}) format("woff2")'
        return re.sub(r"src:[^}]*", source, face[0])

    return re.sub(r"@font-face\{[^}]*\}", embed, css)


def _write(file: Path, content: bytes) -> None:
    if file.is_file() and file.read_bytes() == content:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f"{file.name}.part")
    part.write_bytes(content)
    part.replace(file)


if __name__ == "__main__":
    main()
