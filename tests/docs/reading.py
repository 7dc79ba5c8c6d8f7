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


def film_of(films: Path, recording: str) -> dict[str, Any]:
    return json.loads((films / recording / "steps.json").read_text())


def player(page: Page, recording: str = "fa1") -> Locator:
    return page.locator(f'figure.kernel-player[data-recording="{recording}"]')


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


def section_lines(name: str) -> list[int]:
    """The numbers of the lines between the markers of a section."""
    lines = (ROOT / "kernels" / "fa1.cu").read_text().splitlines()
    start, end = (
        next(n for n, line in enumerate(lines, 1) if f"[{edge}:{name}]" in line) for edge in ("start", "end")
    )
    return list(range(start + 1, end))


def marked_lines(figure: Locator) -> list[int]:
    return figure.evaluate(
        "f => [...f.querySelectorAll('[data-line][aria-current]')].map(l => Number(l.dataset.line))"
    )


def shown_slots(figure: Locator) -> dict[str, list[list[str]]]:
    """Each slot's numbers as written, row by row; no rows while it is empty."""
    return figure.evaluate(
        """figure => Object.fromEntries([...figure.querySelectorAll('.snapshot .slot')].map(slot => [
            slot.dataset.slot,
            [...slot.querySelectorAll('tr')].map(row =>
                [...row.querySelectorAll('.value')].map(value => value.textContent)),
        ]))"""
    )


def written(value: float, like: str) -> str:
    """`value` with as many decimals as `like` has."""
    if np.isinf(value):
        return "−∞" if value < 0 else "∞"
    digits = len(like.partition(".")[2])
    rounded = Decimal(float(value)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    return f"{abs(rounded) if rounded == 0 else rounded}".replace("-", "−")


def assert_slot_shows(shown: list[list[str]], held: np.ndarray | None, name: str) -> None:
    if held is None:
        assert shown == [], name
        return
    rows = held.reshape(held.shape[0], -1)
    assert shown == [
        [written(value, text) for value, text in zip(row, texts, strict=True)]
        for row, texts in zip(rows, shown, strict=True)
    ], name


def assert_snapshot_is(figure: Locator, step: Step) -> None:
    shown = shown_slots(figure)
    for name in step.sram:
        assert_slot_shows(shown[name], step.held(name), name)
    for name in step.hbm:
        assert_slot_shows(shown[name], step.hbm[name], name)


def assert_traffic_is(figure: Locator, trace: Trace, step: Step) -> None:
    rows = figure.evaluate(
        """figure => Object.fromEntries([...figure.querySelectorAll('.traffic tbody tr')].map(row => [
            row.querySelector('th').textContent,
            [...row.querySelectorAll('td')].map(cell => Number(cell.textContent.replace(/\\D/g, ''))),
        ]))"""
    )
    block = trace.steps_of(step.block, step.launch)
    for array in trace.layout.arrays:
        moved = [(s.index, s.traffic[array.name]) for s in block if array.name in s.traffic]
        groups = (
            [traffic for index, traffic in moved if index == step.index],
            [traffic for index, traffic in moved if index <= step.index],
            [traffic for _, traffic in moved],
        )
        expected = [
            sum(getattr(traffic, way) for traffic in g) for g in groups for way in ("reads", "writes")
        ]
        assert rows[array.name] == expected, array.name
