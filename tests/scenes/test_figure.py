"""What the figure draws: the trace's numbers, each in its place, nothing over anything else."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from manim import Mobject

from kernels.trace import Trace
from scenes import plan as places
from scenes.boxes import FRAME, Box
from scenes.fa1 import FlashAttention1
from scenes.figure import Figure
from scenes.lettering import Lettering
from scenes.matrix import LEAST_EM, Matrix
from scenes.score import words_for
from scenes.story import Picture, Story, tell
from scenes.theme import THEMES
from tests.scenes.shapes import name_of, traced

SCORE = FlashAttention1.score
LIGHT = THEMES["light"]
pytestmark = pytest.mark.usefixtures("manim_at_rest")


def box_of(mobject: Mobject) -> Box:
    points = np.concatenate([part.points for part in mobject.get_family() if len(part.points)])
    left, bottom = points[:, 0].min(), points[:, 1].min()
    return Box(left, points[:, 1].max(), points[:, 0].max() - left, points[:, 1].max() - bottom)


def two_decimals(value: float) -> str:
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:.2f}".replace("-0.00", "0.00").replace("-", "−")


def some_pictures(story: Story) -> list[Picture]:
    """The opening, the first turns of each kind of step, and the last steps, where ragged tiles are."""
    pictures = story.pictures
    return [*pictures[:6], *pictures[len(pictures) // 2 : len(pictures) // 2 + 2], *pictures[-5:]]


@pytest.mark.parametrize("theme", THEMES)
def test_slots_show_the_numbers_of_the_trace_after_every_step(theme: str) -> None:
    for shape in ({"N": 8, "d": 4, "Br": 4, "Bc": 4}, {"N": 7, "d": 3, "Br": 2, "Bc": 3}):
        trace = traced(name_of(shape))
        story = tell(trace)
        figure = Figure(story, SCORE, THEMES[theme])
        for picture in story.pictures:
            figure.show(picture)
            for name in SCORE.slots[0]:
                matrix = figure.slots[name]
                held = None if picture.step is None else picture.step.held(name)
                if held is None or held.size == 0:
                    assert matrix is None
                else:
                    assert matrix is not None
                    assert matrix.style == "numbers"
                    assert matrix.texts == tuple(two_decimals(float(value)) for value in held.flat)
            for name in SCORE.arrays[0]:
                window = picture.hbm[name]
                assert figure.hbm[name].texts == tuple(two_decimals(float(value)) for value in window.flat)


def test_playing_a_step_ends_where_showing_it_at_once_does(trace: Trace) -> None:
    story = tell(trace)
    played, shown = Figure(story, SCORE, LIGHT), Figure(story, SCORE, LIGHT)
    for picture in story.pictures[:12]:
        for phase in picture.phases:
            acts, _ = played.acts(phase, 1.0)
            for act in acts:
                act.begin()
                act.interpolate(0.5)
                act.finish()
            played.settle(phase, picture)
        shown.show(picture)
        for name in SCORE.slots[0]:
            ours, theirs = played.slots[name], shown.slots[name]
            assert (ours is None) == (theirs is None)
            if ours is not None and theirs is not None:
                np.testing.assert_array_equal(ours.values, theirs.values)
                assert (ours.texts, ours.fills, ours.box) == (theirs.texts, theirs.fills, theirs.box)
        for name in SCORE.arrays[0]:
            np.testing.assert_array_equal(played.hbm[name].values, shown.hbm[name].values)
            assert played.hbm[name].fills == shown.hbm[name].fills


def test_a_tile_flies_from_where_it_is_to_where_it_goes(trace: Trace) -> None:
    story = tell(trace)
    figure = Figure(story, SCORE, LIGHT)
    load, store = story.pictures[1].phases[0], story.pictures[5].phases[0]
    for acts, inward in ((figure.acts(load, 1.0)[0], True), (figure.acts(store, 1.0)[0], False)):
        for act, event in zip(acts, load if inward else store, strict=True):
            act.begin()
            start = box_of(act.mobject)
            act.finish()
            end = box_of(act.mobject)
            hbm = figure.plan.hbm[event.array].box  # type: ignore[union-attr]
            sram = figure.plan.sram[event.slot].box
            assert (hbm if inward else sram).grown(0.02).holds(start)
            assert (sram if inward else hbm).grown(0.02).holds(end)


def test_everything_stays_in_the_frame(trace: Trace) -> None:
    story = tell(trace)
    figure = Figure(story, SCORE, LIGHT)
    for picture in some_pictures(story):
        figure.show(picture)
        figure.caption.say(words_for(SCORE, story, picture).caption if picture.step else "")
        for mobject in figure.mobjects:
            if any(len(part.points) for part in mobject.get_family()):
                assert FRAME.grown(-0.1).holds(box_of(mobject)), mobject


def test_memories_and_panels_lie_apart() -> None:
    panels = (
        places.TITLE, places.HBM, places.TRAFFIC, places.BLOCKS, places.SRAM, places.CAPTION, places.LOOPS,
    )  # fmt: skip
    for a, b in itertools.combinations(panels, 2):
        assert not a.meets(b), (a, b)


def test_matrices_lie_apart_inside_their_memory(trace: Trace) -> None:
    figure = Figure(tell(trace), SCORE, LIGHT)
    for memory, matrices in ((places.HBM, figure.plan.hbm), (places.SRAM, figure.plan.sram)):
        for place in matrices.values():
            assert memory.holds(place.box)
        for a, b in itertools.combinations(matrices.values(), 2):
            assert not a.box.meets(b.box)


def test_no_text_lies_on_other_text_or_on_a_matrix(trace: Trace) -> None:
    story = tell(trace)
    figure = Figure(story, SCORE, LIGHT)
    for picture in (story.pictures[2], story.pictures[-1]):
        figure.show(picture)
        figure.caption.say(words_for(SCORE, story, picture).caption)
        lines = [
            part
            for mobject in (
                figure.still,
                figure.traffic,
                figure.loops,
                figure.caption,
                *figure.labels.values(),
            )
            for part in mobject.get_family()
            if isinstance(part, Lettering)
        ]
        boxes = [(line.text, box_of(line)) for line in dict.fromkeys(lines)]
        for (text, a), (other, b) in itertools.combinations(boxes, 2):
            assert not a.meets(b), (text, other)
        for place in (*figure.plan.hbm.values(), *figure.plan.sram.values()):
            for text, box in boxes:
                assert not box.meets(place.box), text


def numbers_in(matrix: Matrix) -> list[tuple[Box, Box]]:
    """Each number's own box with that of its cell."""
    assert matrix.numerals is not None
    width, height = matrix.grid.cell(matrix.valid_box)
    tops = matrix.grid.row_tops(matrix.valid_box)
    pairs = []
    for n, text in enumerate(matrix.texts):
        matrix.numerals.first(n)
        before = len(matrix.numerals.points)
        matrix.numerals.first(n + 1)
        if not text:
            continue
        points = matrix.numerals.points[before:]
        left, top = points[:, 0].min(), points[:, 1].max()
        own = Box(left, top, points[:, 0].max() - left, top - points[:, 1].min())
        row, column = divmod(n, matrix.grid.columns)
        pairs.append((own, Box(matrix.valid_box.left + column * width, float(tops[row]), width, height)))
    return pairs


def test_every_number_is_inside_its_cell_and_large_enough_to_read(trace: Trace) -> None:
    story = tell(trace)
    figure = Figure(story, SCORE, LIGHT)
    for picture in some_pictures(story):
        figure.show(picture)
        for matrix in (*figure.hbm.values(), *(matrix for matrix in figure.slots.values() if matrix)):
            if matrix.style == "numbers":
                for own, cell in numbers_in(matrix):
                    assert cell.grown(-0.01).holds(own)
    for place in (*figure.plan.hbm.values(), *figure.plan.sram.values()):
        assert place.style != "numbers" or place.em >= LEAST_EM


def test_small_cells_show_a_heat_map_and_large_ones_numbers() -> None:
    small = Figure(tell(traced(name_of({"N": 64, "d": 16, "Br": 16, "Bc": 16}))), SCORE, LIGHT)
    assert {place.style for place in (*small.plan.hbm.values(), *small.plan.sram.values())} == {"heat"}
    large = Figure(tell(traced(name_of({"N": 8, "d": 4, "Br": 4, "Bc": 4}))), SCORE, LIGHT)
    assert {place.style for place in (*large.plan.hbm.values(), *large.plan.sram.values())} == {"numbers"}


def test_padding_is_hatched_and_shows_no_numbers() -> None:
    story = tell(traced(name_of({"N": 7, "d": 3, "Br": 2, "Bc": 3})))
    figure = Figure(story, SCORE, LIGHT)
    ragged = next(p for p in story.pictures if p.step and p.step.name == "load_kv" and p.step.loop["j"] == 2)
    figure.show(ragged)
    keys = figure.slots["Kj"]
    assert keys is not None
    assert keys.values.shape == (1, 3)
    assert len(keys.texts) == 3
    hatched = box_of(keys.hatch)
    assert figure.plan.sram["Kj"].box.holds(hatched)
    assert not hatched.meets(keys.valid_box)
    figure.show(story.pictures[1])
    whole = figure.slots["Kj"]
    assert whole is not None
    assert len(whole.hatch.points) == 0


def test_each_fold_makes_a_carry_a_shade_stronger_and_each_new_sij_takes_the_other() -> None:
    story = tell(traced(name_of({"N": 7, "d": 3, "Br": 2, "Bc": 3})))
    figure = Figure(story, SCORE, LIGHT)
    by_fold: dict[int, set[str]] = {}
    computed = []
    for picture in story.pictures[1:]:
        assert picture.step is not None
        carry, scores = picture.slots["Oi"], picture.slots["Sij"]
        if carry:
            by_fold.setdefault(carry.folds, set()).add(figure.fill(carry))
        if scores and picture.step.name == "compute":
            computed.append(figure.fill(scores))
    assert sorted(by_fold) == [0, 1, 2, 3]
    assert all(len(fills) == 1 for fills in by_fold.values())
    assert len(set().union(*by_fold.values())) == 4
    assert len(set(computed)) == 2
    assert all(a != b for a, b in itertools.pairwise(computed))
