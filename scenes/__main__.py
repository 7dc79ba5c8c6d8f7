"""The command line of films: ``python -m scenes render``."""

from __future__ import annotations

import os
import sys
import tempfile
from importlib import resources
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

import kernels
from kernels.errors import KernelsError
from scenes.errors import SceneError
from scenes.orders import (
    QUALITIES,
    THEMES,
    Example,
    Order,
    check,
    cluster_of,
    examples,
    has_scene,
    open_trace,
    window_of,
)
from scenes.render import render
from scenes.story import Window


class _Commands(click.Group):
    """Ends with one line and status 2 on an error that this project raises on purpose."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KernelsError as error:
            click.echo(f"error: {error}", err=True)
            ctx.exit(2)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Films of recordings."""


@main.command("render")
@click.argument("recordings", nargs=-1)
@click.option("--theme", type=click.Choice([*THEMES, "both"]), default="both", show_default=True)
@click.option(
    "--quality",
    type=click.Choice(list(QUALITIES)),
    default="h",
    show_default=True,
    help=", ".join(f"{name}: {size.height}p{size.rate}" for name, size in QUALITIES.items()),
)
@click.option("--trace", type=click.Path(path_type=Path), help="A trace file, instead of recordings.")
@click.option("--jobs", type=click.IntRange(min=1), default=os.cpu_count() or 1, help="Films made at a time.")
@click.option("--executor", help="dask://HOST:PORT: make the films on the Dask cluster of that scheduler.")
@click.option("--force", is_flag=True, help="Make films that are up to date, too.")
@click.option("--step", help="With --still: the step to show, such as s07.")
@click.option("--still", "as_still", is_flag=True, help="A PNG of one step instead of a film.")
@click.option("--steps", "window", help="Only some steps, such as 100:200, counted over the blocks from 0.")
@click.option("--transparent", is_flag=True, help="Nothing behind the figure: for slides, as WebM.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("build/films"), show_default=True)
def render_command(
    recordings: tuple[str, ...],
    theme: str,
    quality: str,
    trace: Path | None,
    jobs: int,
    executor: str | None,
    force: bool,
    step: str | None,
    as_still: bool,
    window: str | None,
    transparent: bool,
    out: Path,
) -> None:
    """Make the films of RECORDINGS, by default of every recording with a scene for it, and of the example scenes."""
    if (step is not None) != as_still:
        raise SceneError("--step and --still go together: --step s07 --still makes a PNG of step s07")
    cluster = cluster_of(executor) if executor else None
    if cluster and as_still:
        raise SceneError(f"--executor {executor} makes films; leave it out to make a still")
    part = window_of(window) if window else None
    traces = _traces(recordings, trace, part)
    themes = THEMES if theme == "both" else (theme,)
    orders = [
        Order(name, path, one, quality, out / name, part, transparent)
        for name, path in traces.items()
        for one in themes
    ]
    if not (recordings or trace or as_still or cluster or window or transparent):
        orders += [
            Example(name, file, one, quality, out / name)
            for name, file in examples().items()
            for one in themes
        ]
    if as_still:
        assert step is not None
        from scenes.make import still

        for order in orders:
            click.echo(still(order, step))
        return
    made = _render_with_bars(orders, jobs, force, cluster)
    for order in orders:
        click.echo(f"{order.film}  {'made' if order in made else 'up to date'}")


@main.command("bench")
@click.argument("recordings", nargs=-1)
@click.option("--quality", type=click.Choice(list(QUALITIES)), default="h", show_default=True)
def bench_command(recordings: tuple[str, ...], quality: str) -> None:
    """Time the rendering of films, of all RECORDINGS by default, against encoding their frames alone."""
    from scenes.bench import bench

    names = tuple(_traces(recordings, None))
    with tempfile.TemporaryDirectory() as folder:
        for line in bench(names, quality, Path(folder)):
            click.echo(line)


def _traces(recordings: tuple[str, ...], trace: Path | None, window: Window | None = None) -> dict[str, Path]:
    """The trace files to film, by the name of the film's folder; SceneError if one cannot be filmed."""
    if trace is not None:
        if recordings:
            raise SceneError(
                f"--trace {trace} and the recordings {', '.join(recordings)} are two wishes: name one"
            )
        check(open_trace(trace), window)
        return {trace.stem: trace}
    found = {name: kernels.recorded(name) for name in recordings or kernels.recordings()}
    if not recordings:
        found = {name: each for name, each in found.items() if has_scene(each.kernel)}
    if not found:
        raise SceneError("there are no recordings to film: record one, or name a file with --trace")
    for each in found.values():
        check(each, window)
    folder = Path(str(resources.files("kernels") / "recordings"))
    return {name: folder / f"{name}.trace" for name in found}


def _render_with_bars(orders: list[Order], jobs: int, force: bool, cluster: str | None) -> list[Order]:
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("steps")
    progress = Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True))
    bars: dict[Order, TaskID] = {}

    def report(order: Order, done: int, of: int) -> None:
        if not bars:
            progress.start()
        if order not in bars:
            bars[order] = progress.add_task(f"{order.recording} {order.theme}", total=of)
        progress.update(bars[order], completed=done, total=of)

    try:
        return render(orders, jobs, force, report, cluster)
    finally:
        if bars:
            progress.stop()


if __name__ == "__main__":
    sys.exit(main())
