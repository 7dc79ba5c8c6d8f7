"""The player, `/// kernel-player | fa1`: the film of a recording with its steps, its code and its snapshots.

All that a reader without JavaScript can use is here; `docs/assets/player.js` brings it to life.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import Any

import kernels
from docs.blocks.formulas import render
from docs.blocks.html_block import HtmlBlock, HtmlBlockExtension
from docs.blocks.site_root import site_root
from docs.blocks.step_list import step_list
from docs.film import STILL_WIDTH, Film, load_film
from docs.snapshots import LARGE, snapshots_script
from docs.source import host_listings, listing, source_of
from kernels.trace import Provenance, Trace

# What the buttons of the bar do, their sign, and what they say.
CONTROLS = (
    ("previous", "←", "Previous step"),
    ("replay", "↻", "Play this step again"),
    ("next", "→", "Next step"),
    ("play-on", "▶", "Play on from here"),
    ("loop", "⟲", "Loop this step"),
    ("enlarge", "⤢", "Enlarge the film"),
    ("help", "?", "Keys"),
)

SPEEDS = ("0.5", "0.75", "1", "1.5", "2")

KEYS = (
    ("← →", "previous and next step"),
    ("Space", "play on, or pause"),
    ("1 … 9", "the first to the ninth step after the opening"),
    ("Home, End", "first and last step"),
    ("l", "loop this step, or stop looping"),
    ("?", "show or hide these keys"),
)

FORMULAS = Path(__file__).parents[1] / "formulas"


class PlayerError(Exception):
    """A player cannot be built from what is there."""


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
            "style": f"--height-by-width: {film.height / film.width:.6f}",
            "aria-label": f"{trace.title}, step by step: the recording {film.recording}",
            "tabindex": "0",
            "data-search-exclude": "",
        }

    def html(self) -> str:
        film, trace = self._film_and_trace()
        first = not hasattr(self.md, "first_player")
        self.md.first_player = film.recording
        return _content(film, trace, self._address(film), first)

    def _film_and_trace(self) -> tuple[Film, Trace]:
        return load_film(self.argument, self.films), kernels.recorded(self.argument)

    def _address(self, film: Film) -> str:
        return f"{site_root(self.md)}/films/{film.recording}"


def _content(film: Film, trace: Trace, address: str, first: bool) -> str:
    """The player; only the first of a page brings its poster along, the others' come when the reader is near."""
    source, host = source_of(trace.kernel), host_listings(trace.kernel)
    size = len(snapshots_script(film, trace))
    buttons = "".join(
        f'<button type="button" data-do="{name}" title="{says}" aria-label="{says}" disabled>{sign}</button>'
        for name, sign, says in CONTROLS
    )
    speeds = "".join(
        f"<option{' selected' if speed == '1' else ''} value={speed}>{speed} ×</option>" for speed in SPEEDS
    )
    keys = "".join(f"<dt>{key}</dt><dd>{does}</dd>" for key, does in KEYS)
    video = (
        f'<video controls playsinline muted preload="none" width="{film.width}" height="{film.height}" '
        f'src="{address}/light.mp4" {"poster" if first else "data-poster"}="{address}/poster-light.webp" '
        f'aria-label="Film of {escape(trace.title)}"></video>'
    )
    return f"""
<div class="watch"><div class="stage">{video}</div>
<div class="bar"><div class="controls">{buttons}
<select aria-label="Speed" title="Speed" disabled>{speeds}</select></div>
<p class="now" aria-live="polite" aria-atomic="true"><span class="block"></span> <span class="loop"></span>
<span class="caption"></span></p><dl class="help" hidden>{keys}</dl></div>
<nav class="list" aria-label="Steps of {film.recording}"><p class="head"><button type="button" class="grip"
title="Drag the steps onto the film; Enter does it too, and arrow keys move them there"
aria-label="Put the steps onto the film" aria-pressed="false" disabled>⋮⋮</button> Steps</p>
{step_list(film, trace)}</nav></div>
<div class="read">{formula_panel(trace.kernel, film.recording)}
<section class="code highlight" aria-label="Code of {film.recording}"><p class="title">
<button type="button" data-code="kernel" aria-pressed="true" disabled>{source.name}</button>
<button type="button" data-code="host" aria-pressed="false" disabled>the launch</button>
<span class="where"><small class="span"></small> <small class="loop"></small></span></p>
{listing(source)}<div class="host">{host}</div></section>
<section class="snapshot" aria-label="Snapshot of {film.recording}" tabindex="0">{_ask(size)}</section>
<section class="row" aria-label="One row of {film.recording}, step by step"></section>
<section class="traffic" aria-label="Traffic of {film.recording}" tabindex="0"></section></div>
{stills(film, address)}
<figcaption>{provenance_line(trace)}</figcaption>
"""


def _ask(size: int) -> str:
    """What stands for snapshots of `size` bytes until the reader asks for them; nothing if they are small."""
    if size < LARGE:
        return ""
    return (
        '<p class="ask">Every number of every slot after each step: <button type="button" class="show" '
        f'data-do="numbers" disabled>show the numbers ({round(size / 1000)} KB)</button></p>'
    )


def stills(film: Film, address: str) -> str:
    """How each step ends, for print; a browser loads them when it prints."""
    items = "".join(
        f'<li><img src="{address}/stills/{step.id}.webp" alt="" loading="lazy" width="{STILL_WIDTH}" '
        f'height="{round(STILL_WIDTH * film.height / film.width)}">{escape(step.label)}: {escape(step.caption)}</li>'
        for step in film.steps
    )
    return f'<ol class="stills">{items}</ol>'


def formula_panel(kernel: str, recording: str) -> str:
    """What each kind of step computes, as formulas; nothing for a kernel without any.

    PlayerError if a step is named that the kernel has not.
    """
    file = FORMULAS / f"{kernel}.tex"
    if not file.is_file():
        return ""
    tex = file.read_text(encoding="utf-8")
    named = set(re.findall(r"\\step\{(\w+)\}", tex))
    if named != set(source_of(kernel).sections):
        raise PlayerError(f"{file.name} and {kernel}.cu name different steps: {sorted(named)}")
    return (
        f'<section class="formulas" aria-label="Formulas of {recording}" tabindex="0">'
        f'<p class="title">Formulas <small class="which"></small></p>{render(tex, True)}</section>'
    )


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
