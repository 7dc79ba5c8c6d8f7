"""What the figure draws: the trace's numbers, each in its place, nothing over anything else."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from manim import Mobject

import kernels
from kernels.trace import Trace
from scenes import plan as places
from scenes.boxes import FRAME, FRAME_WIDTH, Box
from scenes.figure import Figure
from scenes.lettering import Lettering
from scenes.matrix import LEAST_EM, Matrix
from scenes.numerals import Numerals, decimals_of, written
from scenes.panels import Worked
from scenes.score import words_for, working_for
from scenes.story import Loaded, Move, Picture, Story, tell_all, values_of
from scenes.theme import THEMES
from scenes.workings import Number
from tests.scenes.shapes import (
    FA2,
    LONG,
    MASKED,
    RAGGED,
    SMALL,
    SOFTMAX,
    SPLITS,
    Shape,
    name_of,
    score_of,
    traced,
)

LIGHT = THEMES["light"]
pytestmark = pytest.mark.usefixtures("manim_at_rest")
_FILMED: dict[int, list[tuple[Story, Figure]]] = {}


def box_of(mobject: Mobject) -> Box:
    points = np.concatenate([part.points for part in mobject.get_family() if len(part.points)])
    left, bottom = points[:, 0].min(), points[:, 1].min()
    return Box(left, points[:, 1].max(), points[:, 0].max() - left, points[:, 1].max() - bottom)


def as_written(value: float, decimals: int) -> str:
    if math.isnan(value):
        return ""
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:.{decimals}f}"
    return (text if float(text) else text.removeprefix("-")).replace("-", "−")


def decimals_of_letters(story: Story, stories: Sequence[Story]) -> dict[str, int]:
    """Two for each letter, or as many as write all that it is in a film exactly."""
    layout = story.trace.layout
    slots = layout.launches[story.launch].slots
    found = {}
    for symbol in {array.symbol for array in layout.arrays} | {slot.symbol for slot in slots}:
        values = [value for value in values_of(stories, symbol) if np.isfinite(value)]
        exact = [n for n in (0, 1) if all(np.float32(f"{value:.{n}f}") == value for value in values)]
        found[symbol] = min([*exact, 2])
    return found


def some_pictures(story: Story) -> list[Picture]:
    """The opening, the first turns of each kind of step, and the last steps, where ragged tiles are."""
    pictures = story.pictures
    chosen = [*range(6), len(pictures) // 2, *range(len(pictures) - 4, len(pictures))]
    return [pictures[n] for n in sorted(set(chosen)) if 0 <= n < len(pictures)]


def filmed(trace: Trace) -> list[tuple[Story, Figure]]:
    """Of each launch the first two stories and the last, with their figures, which tests put in any state they need."""
    if id(trace) not in _FILMED:
        _FILMED[id(trace)] = _film(trace)
    return _FILMED[id(trace)]


def _film(trace: Trace) -> list[tuple[Story, Figure]]:
    stories = tell_all(trace)
    chosen: list[Story] = []
    for launch in range(len(trace.layout.launches)):
        own = [story for story in stories if story.launch == launch]
        chosen += [*own[:2], *own[2:][-1:]]
    return [(story, Figure(story, score_of(trace), LIGHT, stories)) for story in chosen]


def words_of(figure: Figure, picture: Picture) -> str:
    opening = picture.step is None and picture.skipped is None
    return "" if opening else words_for(score_of(figure.story.trace), figure.story, picture).caption


def show(figure: Figure, picture: Picture) -> None:
    """Put all of a step on the canvas, as a still of it does."""
    figure.show(picture)
    figure.caption.say(words_of(figure, picture))
    here = next(n for n, other in enumerate(figure.story.pictures) if other is picture)
    before = figure.story.pictures[here - 1]
    working = working_for(score_of(figure.story.trace), before, picture)
    figure.worked.say(working.summary if working else ())


@pytest.mark.parametrize("shape", [SMALL, RAGGED, FA2, SPLITS, SOFTMAX], ids=name_of)
def test_slots_show_the_numbers_of_the_trace_after_every_step(shape: Shape) -> None:
    stories = tell_all(traced(shape))
    for story, figure in filmed(traced(shape)):
        decimals = decimals_of_letters(story, stories)
        for picture in story.pictures:
            figure.show(picture)
            for name in figure.slot_names:
                matrix = figure.slots[name]
                letter = figure.launch.slot(name).symbol
                held = None if picture.step is None else picture.step.held(name)
                if picture.skipped:
                    continue
                if held is None or held.size == 0:
                    assert matrix is None
                else:
                    assert matrix is not None
                    assert matrix.style == "numbers"
                    assert matrix.texts == tuple(
                        as_written(float(value), decimals[letter]) for value in held.flat
                    )
            for name in figure.arrays:
                if figure.hbm[name].style == "numbers":
                    letter = story.trace.layout.array(name).symbol
                    shown = figure.hbm[name].texts
                    assert shown == tuple(
                        as_written(float(value), decimals[letter]) for value in picture.hbm[name].flat
                    )


def test_inputs_of_one_decimal_are_written_with_one_and_results_with_two() -> None:
    (story,) = tell_all(traced(SMALL))
    assert decimals_of_letters(story, [story]) == {"Q": 1, "K": 1, "V": 1, "S": 2, "m": 2, "l": 2, "O": 2}


def test_playing_a_step_ends_where_showing_it_at_once_does(trace: Trace) -> None:
    stories = tell_all(trace)
    for story in (stories[0], *stories[1:][-1:]):
        played, shown = (Figure(story, score_of(trace), LIGHT, stories) for _ in range(2))
        for picture in story.pictures[:8]:
            for phase in picture.phases:
                acts, _ = played.acts(phase, 1.0)
                for act in acts:
                    act.begin()
                    act.interpolate(0.5)
                    act.finish()
                played.settle(phase, picture)
            shown.show(picture)
            for name in shown.slot_names:
                ours, theirs = played.slots[name], shown.slots[name]
                assert (ours is None) == (theirs is None)
                if ours is not None and theirs is not None:
                    np.testing.assert_array_equal(ours.values, theirs.values)
                    assert (ours.texts, ours.fills, ours.box) == (theirs.texts, theirs.fills, theirs.box)
            for name in shown.arrays:
                np.testing.assert_array_equal(played.hbm[name].values, shown.hbm[name].values)
                assert played.hbm[name].fills == shown.hbm[name].fills


def test_a_tile_flies_from_where_it_is_to_where_it_goes(trace: Trace) -> None:
    for story, figure in filmed(trace):
        moving = [
            phase for picture in story.pictures for phase in picture.phases if isinstance(phase[0], Move)
        ]
        for phase in (moving[0], moving[-1]):
            for act, event in zip(figure.acts(phase, 1.0)[0], phase, strict=True):
                act.begin()
                start = box_of(act.mobject)
                act.finish()
                end = box_of(act.mobject)
                assert isinstance(event, Move)
                hbm, sram = figure.plan.hbm[event.array].box, figure.plan.sram[event.slot].box
                inward = isinstance(event, Loaded)
                assert (hbm if inward else sram).grown(0.02).holds(start)
                assert (sram if inward else hbm).grown(0.02).holds(end)


def test_the_tile_in_hbm_is_outlined_while_it_moves(trace: Trace) -> None:
    for story, figure in filmed(trace):
        phase = next(
            phase for picture in story.pictures for phase in picture.phases if isinstance(phase[0], Move)
        )
        _, (marks, *copies) = figure.acts(phase, 1.0)
        assert len(copies) == len(phase)
        corners = marks.points.reshape(len(phase), 16, 3)
        for event, points in zip(phase, corners, strict=True):
            assert isinstance(event, Move)
            box = figure.tile_box(event)
            assert (points[:, 0].min(), points[:, 1].max()) == pytest.approx((box.left, box.top))
            assert figure.plan.hbm[event.array].box.holds(box)


def test_everything_stays_in_the_frame(trace: Trace) -> None:
    for story, figure in filmed(trace):
        for picture in some_pictures(story):
            show(figure, picture)
            for mobject in figure.mobjects:
                if any(len(part.points) for part in mobject.get_family()):
                    assert FRAME.grown(-0.1).holds(box_of(mobject)), mobject


def test_memories_and_panels_lie_apart() -> None:
    panels = (
        places.TITLE, places.HBM, places.TRAFFIC, places.BLOCKS, places.SRAM, places.CAPTION, places.WORKED,
    )  # fmt: skip
    for a, b in itertools.combinations(panels, 2):
        assert not a.meets(b), (a, b)


def test_matrices_lie_apart_inside_their_memory(trace: Trace) -> None:
    for _, figure in filmed(trace):
        for memory, matrices in ((places.HBM, figure.plan.hbm), (places.SRAM, figure.plan.sram)):
            for place in matrices.values():
                assert memory.holds(place.box)
            for a, b in itertools.combinations(matrices.values(), 2):
                assert not a.box.meets(b.box)


def test_no_text_lies_on_other_text_or_on_a_matrix(trace: Trace) -> None:
    for story, figure in filmed(trace):
        for picture in (story.pictures[min(2, len(story.pictures) - 1)], story.pictures[-1]):
            show(figure, picture)
            boxes = [
                (part.text, box_of(part))
                for mobject in (
                    figure.still,
                    figure.traffic,
                    figure.loops,
                    figure.caption,
                    figure.worked,
                    *figure.labels.values(),
                )
                for part in mobject.get_family()
                if isinstance(part, Lettering) and part.text
            ]
            boxes = [
                (text, box) for n, (text, box) in enumerate(boxes) if box not in [b for _, b in boxes[:n]]
            ]
            for (text, a), (other, b) in itertools.combinations(boxes, 2):
                assert not a.meets(b), (text, other)
            for place in (*figure.plan.hbm.values(), *figure.plan.sram.values()):
                for text, box in boxes:
                    assert not box.meets(place.box), text


def numbers_in(matrix: Matrix) -> list[tuple[Box, Box]]:
    """Each number's own box with that of its cell."""
    assert matrix.numerals is not None
    width, height = matrix.grid.cell(matrix.valid_box)
    tops, lefts = matrix.grid.row_tops(matrix.valid_box), matrix.grid.column_lefts(matrix.valid_box)
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
        pairs.append((own, Box(float(lefts[column]), float(tops[row]), width, height)))
    return pairs


def test_every_number_is_inside_its_cell_and_large_enough_to_read(trace: Trace) -> None:
    for story, figure in filmed(trace):
        for picture in some_pictures(story):
            figure.show(picture)
            for matrix in (*figure.hbm.values(), *(matrix for matrix in figure.slots.values() if matrix)):
                if matrix.style == "numbers":
                    for own, cell in numbers_in(matrix):
                        assert cell.grown(-0.01).holds(own)
        for place in (*figure.plan.hbm.values(), *figure.plan.sram.values()):
            assert place.style != "numbers" or place.em >= LEAST_EM


def test_small_cells_show_a_heat_map_and_large_ones_numbers() -> None:
    for shape, style in ((LONG, "heat"), (SMALL, "numbers")):
        ((_, figure),) = filmed(traced(shape))
        assert {place.style for place in (*figure.plan.hbm.values(), *figure.plan.sram.values())} == {style}


def test_every_heat_map_has_a_legend_narrow_ones_too(trace: Trace) -> None:
    stories = tell_all(trace)
    for _, figure in filmed(trace):
        letters = {
            trace.layout.array(name).symbol for name, p in figure.plan.hbm.items() if p.style == "heat"
        }
        letters |= {
            figure.launch.slot(name).symbol for name, p in figure.plan.sram.items() if p.style == "heat"
        }
        texts = [part.text for part in figure.still.get_family() if isinstance(part, Lettering)]
        for letter in letters:
            values = values_of(stories, letter)
            most = float(abs(values[np.isfinite(values)]).max(initial=0.0)) or 1.0
            assert f"±{written(most, decimals_of(values))}" in texts, letter


def test_numbers_and_names_of_the_recordings_can_be_read_as_wide_as_a_page_shows_them() -> None:
    page, phone = 800 / FRAME_WIDTH, 390 / FRAME_WIDTH  # pixels a unit
    for name in ("fa1", "fa2", "fa2-causal", "flash-decoding", "online-softmax"):
        recording = kernels.recorded(name)
        stories = tell_all(recording)
        figure = Figure(stories[0], score_of(recording), LIGHT, stories)
        for place in figure.plan.sram.values():
            assert place.style == "numbers"
            assert place.em * page >= 12
        assert places.NAME_EM * phone >= 9
        assert min(figure.caption.em, figure.worked.em) * phone >= 10


def test_a_worked_number_is_written_as_its_slot_writes_it() -> None:
    worked = Worked(places.WORKED, LIGHT, {"m": 1})
    worked.say((Number(2.5, "m"), Number(2.25, "m"), Number(0.5, "S")))
    assert [part.texts for part in worked.submobjects if isinstance(part, Numerals)] == [
        ("2.5",),
        ("2.25",),
        ("0.50",),
    ]


def test_where_there_are_only_vectors_they_lie() -> None:
    ((story, figure),) = filmed(traced(SOFTMAX))
    figure.show(story.pictures[-1])
    for name in ("x", "y"):
        box = figure.plan.hbm[name].box
        assert box.width > 8 * box.height
        assert figure.hbm[name].values.shape == (1, 11)


def test_masked_scores_are_hatched() -> None:
    seen = 0
    for story, figure in filmed(traced(MASKED)):
        for picture in story.pictures:
            figure.show(picture)
            scores = figure.slots["Sij"]
            if scores is None:
                continue
            for (row, column), value in np.ndenumerate(scores.values):
                cell = scores.grid.part(scores.valid_box, (row, row + 1), (column, column + 1))
                x, y = (scores.hatch.points[:, axis] for axis in (0, 1))
                inside = (abs(x - cell.center[0]) < cell.width / 3) & (
                    abs(y - cell.center[1]) < cell.height / 3
                )
                assert inside.any() == np.isneginf(value)
                seen += int(np.isneginf(value))
    assert seen


def test_skipped_tiles_are_crossed_out() -> None:
    ((story, figure), *_) = filmed(traced(MASKED))
    (picture,) = [picture for picture in story.pictures if picture.skipped]
    assert picture.skipped is not None
    figure.show(picture)
    crosses = figure.crosses(picture.skipped)
    assert len(crosses.points) // 8 == len(picture.skipped.tiles) == 6
    for n, (name, tile) in enumerate(picture.skipped.tiles):
        place = figure.plan.hbm[name]
        points = crosses.points[8 * n : 8 * n + 8]
        assert (
            place.grid.tile_box(place.box, tile)
            .grown(0.001)
            .holds(Box(points[:, 0].min(), points[:, 1].max(), np.ptp(points[:, 0]), np.ptp(points[:, 1])))
        )


def test_tiles_of_partial_results_have_names_of_their_own() -> None:
    _, (_, figure), *_ = filmed(traced(SPLITS))
    texts = [part.text for part in figure.still.get_family() if isinstance(part, Lettering)]
    labels = [text for text in texts if text.startswith("$O_(")]
    assert "$O_(p 0)$" in labels
    _, last = filmed(traced(SPLITS))[-1]
    texts = [part.text for part in last.still.get_family() if isinstance(part, Lettering)]
    assert {"$O_(p 0)$", "$O_(0)$"} <= set(texts)


def test_turns_of_another_split_are_faint_and_never_filled() -> None:
    stories = tell_all(traced(SPLITS))
    second = next(story for story in stories if story.block == (1, 0, 0))
    assert second.turns == {"j": frozenset({2, 3})}
    figure = Figure(second, score_of(second.trace), LIGHT, stories)
    picture = next(picture for picture in second.pictures if picture.step and picture.step.loop.get("j") == 2)
    figure.show(picture)
    faint, own, filled = [part for part in figure.loops.submobjects if not isinstance(part, Lettering)]
    assert [len(part.points) // 16 for part in (faint, own, filled)] == [4, 2, 1]


def test_padding_is_hatched_and_shows_no_numbers() -> None:
    ((story, figure),) = filmed(traced(RAGGED))
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
    ((story, figure),) = filmed(traced(RAGGED))
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
