"""What a player on a page shows, read from the page, and what it should show, read from film, source and trace."""

from __future__ import annotations

import json
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Locator, Page

from kernels.trace import Step, Trace
from tests.docs.conftest import ROOT

PAGE = "flash-attention-1/index.html"

# The page each recording's player stands on.
PAGES = {
    "online-softmax": "online-softmax/index.html",
    "fa1": PAGE,
    "fa1-n64": PAGE,
    "fa2": "flash-attention-2/index.html",
    "fa2-causal": "flash-attention-2/index.html",
    "fa2-n64": "flash-attention-2/index.html",
    "flash-decoding": "flash-decoding/index.html",
    "flash-decoding-n128": "flash-decoding/index.html",
}


def film_of(films: Path, recording: str) -> dict[str, Any]:
    return json.loads((films / recording / "steps.json").read_text())


def player(page: Page, recording: str = "fa1") -> Locator:
    return page.locator(f'figure.kernel-player[data-recording="{recording}"]')


def come_near(figure: Locator) -> None:
    """Scroll to the player, as a reader does, ask for its numbers if they are large, and wait for them."""
    figure.evaluate("figure => figure.scrollIntoView()")
    for ask in figure.locator('[data-do="numbers"]').all():
        ask.click()
    figure.locator(".snapshot .slot").first.wait_for()


def pick(figure: Locator, step: dict[str, Any]) -> None:
    figure.locator(f'button[data-step="{step["id"]}"]').click()
    wait_for_frame(figure)


def wait_for_frame(figure: Locator) -> None:
    """Until the film shows the frame it was sent to."""
    figure.locator("video").evaluate(
        """video => new Promise((resolve, reject) => {
            const late = setTimeout(() => reject(new Error(`the film did not seek: ${video.src}`)), 5000);
            const look = () => {
                if (video.seeking || video.readyState < 2 || !video.src) return setTimeout(look, 5);
                clearTimeout(late);
                resolve();
            };
            look();
        })"""
    )


def time_of(figure: Locator) -> float:
    return figure.locator("video").evaluate("video => video.currentTime")


def assert_film_is_in(figure: Locator, film: dict[str, Any], step: dict[str, Any]) -> None:
    frame = time_of(figure) * film["fps"]
    assert step["first_frame"] <= frame < step["first_frame"] + step["frames"], step["id"]


def section_lines(kernel: str, name: str) -> list[int]:
    """The numbers of the lines between the markers of a section."""
    lines = (ROOT / "kernels" / f"{kernel}.cu").read_text().splitlines()
    start, end = (
        next(n for n, line in enumerate(lines, 1) if f"[{edge}:{name}]" in line) for edge in ("start", "end")
    )
    return list(range(start + 1, end))


def head_lines(kernel: str, function: str) -> list[int]:
    """The numbers of the lines from a function's template to its first section, the marker left out."""
    lines = (ROOT / "kernels" / f"{kernel}.cu").read_text().splitlines()
    start = next(n for n, line in enumerate(lines, 1) if f"__global__ void {function}(" in line)
    end = next(n for n, line in enumerate(lines, 1) if n > start and "[start:" in line)
    return list(range(start - 1, end))


def skipping_lines(kernel: str) -> list[int]:
    """The numbers of the lines that pass over a turn of a loop because of the mask."""
    lines = (ROOT / "kernels" / f"{kernel}.cu").read_text().splitlines()
    return [n for n, line in enumerate(lines, 1) if line.lstrip().startswith("if (causal && ")]


def marked_lines(figure: Locator) -> list[int]:
    return figure.evaluate(
        "f => [...f.querySelectorAll('[data-line][aria-current]')].map(l => Number(l.dataset.line))"
    )


def shown_slots(figure: Locator) -> dict[str, list[list[str]] | str]:
    """Each slot's numbers as written, row by row; no rows while it is empty; what a heat map says of itself."""
    return figure.evaluate(
        """figure => Object.fromEntries([...figure.querySelectorAll('.snapshot .slot')].map(slot => [
            slot.dataset.slot,
            slot.querySelector('canvas')?.getAttribute('aria-label') ?? [...slot.querySelectorAll('tr')].map(row =>
                [...row.querySelectorAll('.value')].map(value => value.textContent)),
        ]))"""
    )


def written(value: float, like: str) -> str:
    """`value` with as many decimals as `like` has; a NaN is what HBM held before anything was written there."""
    if np.isnan(value):
        return "·"
    if np.isinf(value):
        return "−∞" if value < 0 else "∞"
    digits = len(like.partition(".")[2])
    rounded = Decimal(float(value)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    return f"{abs(rounded) if rounded == 0 else rounded}".replace("-", "−")


def assert_slot_shows(shown: list[list[str]] | str, held: np.ndarray | None, name: str) -> None:
    if held is None:
        assert shown == [], name
        return
    rows = held.reshape(held.shape[0], -1)
    if isinstance(shown, str):
        finite = rows[np.isfinite(rows)]
        parts = []
        if finite.size:
            parts.append(" to ".join(written(value, "0.000") for value in (finite.min(), finite.max())))
        if np.isneginf(rows).any():
            parts.append("−∞ (blank)")
        if np.isnan(rows).any():
            parts.append("not written yet (blank)" if finite.size else "nothing written yet")
        says = ", ".join(parts)
        assert shown == f"{name}: {rows.shape[0]} × {rows.shape[1]} numbers, {says}"
        return
    assert shown == [
        [written(value, text) for value, text in zip(row, texts, strict=True)]
        for row, texts in zip(rows, shown, strict=True)
    ], name


def assert_snapshot_is(figure: Locator, step: Step) -> None:
    shown = shown_slots(figure)
    assert set(shown) == {*step.sram, *step.hbm}
    for name in step.sram:
        assert_slot_shows(shown[name], step.held(name), name)
    for name in step.hbm:
        assert_slot_shows(shown[name], step.hbm[name], name)


def assert_traffic_is(figure: Locator, film: dict[str, Any], trace: Trace, step: Step) -> None:
    """What crossed in this step, in the film so far, and in all of the film."""
    rows = figure.evaluate(
        """figure => Object.fromEntries([...figure.querySelectorAll('.traffic tbody tr')].map(row => [
            row.querySelector('th').textContent,
            [...row.querySelectorAll('td')].map(cell => Number(cell.textContent.replace(/\\D/g, ''))),
        ]))"""
    )
    shown = [trace.steps[s["trace_step"]] for s in film["steps"] if s["trace_step"] is not None]
    assert [s.index for s in shown] == sorted(s.index for s in shown)
    for array in trace.layout.arrays:
        moved = [(s.index, s.traffic[array.name]) for s in shown if array.name in s.traffic]
        groups = (
            [traffic for index, traffic in moved if index == step.index],
            [traffic for index, traffic in moved if index <= step.index],
            [traffic for _, traffic in moved],
        )
        expected = [
            sum(getattr(traffic, way) for traffic in g) for g in groups for way in ("reads", "writes")
        ]
        assert rows.get(array.name, [0] * 6) == expected, array.name


def assert_player_shows(figure: Locator, film: dict[str, Any], trace: Trace, step: dict[str, Any]) -> None:
    """That film, list, code, snapshot and traffic all show `step`."""
    assert_film_is_in(figure, film, step)
    assert figure.locator("button[data-step][aria-current]").get_attribute("data-step") == step["id"]
    if step["trace_step"] is None:
        assert_marked_outside_the_steps(figure, film, trace, step)
        return
    traced = trace.steps[step["trace_step"]]
    assert marked_lines(figure) == section_lines(trace.kernel, traced.name)
    loop = ", ".join(f"{name} = {value}" for name, value in traced.loop.items())
    assert figure.locator(".code .loop").text_content() == loop
    assert_snapshot_is(figure, traced)
    assert_traffic_is(figure, film, trace, traced)


def assert_marked_outside_the_steps(
    figure: Locator, film: dict[str, Any], trace: Trace, step: dict[str, Any]
) -> None:
    """That an opening marks what its function runs before its first step, a skip the line that skips; no formula."""
    if step["label"].startswith("skip"):
        assert marked_lines(figure) == skipping_lines(trace.kernel)
    else:
        following = next(
            each["trace_step"]
            for each in film["steps"]
            if each["first_frame"] > step["first_frame"] and each["trace_step"] is not None
        )
        function = trace.launch_of(trace.steps[following]).function
        assert marked_lines(figure) == head_lines(trace.kernel, function)
    assert figure.locator(".formulas .active").count() == 0
    assert figure.locator(".formulas .which").text_content() == "this step computes nothing"
