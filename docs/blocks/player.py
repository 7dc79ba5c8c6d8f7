"""The player, `/// kernel-player | fa1`: the film of a recording with its steps, its code and its snapshots.

All that a reader without JavaScript can use is here; `docs/assets/player.js` brings it to life.
"""

from __future__ import annotations

from html import escape
from typing import Any

import kernels
from docs.blocks.html_block import HtmlBlock, HtmlBlockExtension
from docs.blocks.site_root import site_root
from docs.blocks.step_list import step_list
from docs.film import Film, load_film
from docs.source import listing, source_of
from kernels.trace import Provenance, Trace

# What the buttons of the bar do, their sign, and what they say.
CONTROLS = (
    ("previous", "←", "Previous step"),
    ("replay", "↻", "Play this step again"),
    ("next", "→", "Next step"),
    ("play-on", "▶", "Play on from here"),
)


class KernelPlayer(HtmlBlock):
    """`/// kernel-player | RECORDING`."""

    NAME = "kernel-player"
    TAG = "figure"

    def attributes(self) -> dict[str, str]:
        film, trace = self._film_and_trace()
        return {
            "class": "kernel-player",
            "data-recording": film.recording,
            "data-films": self._address(film),
            "data-fps": f"{film.fps:g}",
            "aria-label": f"{trace.title}, step by step: the recording {film.recording}",
            "tabindex": "-1",
            "data-search-exclude": "",
        }

    def html(self) -> str:
        film, trace = self._film_and_trace()
        return _content(film, trace, self._address(film))

    def _film_and_trace(self) -> tuple[Film, Trace]:
        return load_film(self.argument, self.films), kernels.recorded(self.argument)

    def _address(self, film: Film) -> str:
        return f"{site_root(self.md)}/films/{film.recording}"


def _content(film: Film, trace: Trace, address: str) -> str:
    source = source_of(trace.kernel)
    buttons = "".join(
        f'<button type="button" data-do="{name}" title="{says}" aria-label="{says}" disabled>{sign}</button>'
        for name, sign, says in CONTROLS
    )
    video = (
        f'<video controls playsinline muted preload="none" width="{film.width}" height="{film.height}" '
        f'src="{address}/light.mp4" poster="{address}/poster-light.webp" '
        f'aria-label="Film of {escape(trace.title)}"></video>'
    )
    return f"""
<div class="stage" style="--height-by-width: {film.height / film.width:.6f}">{video}</div>
<nav class="list" aria-label="Steps of {film.recording}">{step_list(film, trace)}</nav>
<div class="bar"><div class="controls">{buttons}</div>
<p class="now" aria-live="polite"><span class="loop"></span> <span class="caption"></span></p></div>
<section class="code highlight" aria-label="Code of {film.recording}"><p class="title">{source.name}
<small class="span"></small> <small class="loop"></small></p>{listing(source)}</section>
<section class="snapshot" aria-label="Snapshot of {film.recording}" tabindex="0"></section>
<section class="traffic" aria-label="Traffic of {film.recording}"></section>
<figcaption>{provenance_line(trace)}</figcaption>
"""


def provenance_line(trace: Trace) -> str:
    """Where the trace came from, in one sentence; a run on a CPU says so plainly."""
    where = trace.provenance
    params = ", ".join(f"{name} = {value}" for name, value in trace.params.items())
    return (
        f"<span>Every number here comes from one run of <code>{escape(trace.kernel)}.cu</code> {_place(where)}, "
        f'on <time datetime="{escape(where.recorded_at)}">{escape(where.recorded_at[:10])}</time> '
        f"({escape(params)}).</span> "
        f"<span>Runtime {escape(where.runtime)}; compiler {escape(where.compiler)}; source "
        f'<code title="SHA-256 of the source without comments: {escape(where.source_hash)}">'
        f"{escape(where.source_hash[:12])}</code>.</span>"
    )


def _place(where: Provenance) -> str:
    if where.backend == "cpu":
        return f"on a CPU (<strong>{escape(where.device)}</strong>), <strong>not on a GPU</strong>"
    return f"on a GPU (<strong>{escape(where.device)}</strong>, driver {escape(where.driver)})"


def makeExtension(**options: Any) -> HtmlBlockExtension:
    """What Markdown calls to load `docs.blocks.player`."""
    return HtmlBlockExtension(KernelPlayer, **options)
