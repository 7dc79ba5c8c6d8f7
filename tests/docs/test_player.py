"""The player in Chromium: the step picked is the step that film, code, snapshot and traffic show."""

from __future__ import annotations

from pathlib import Path

import pytest

import kernels
from tests.docs.conftest import OpenPage
from tests.docs.reading import (
    PAGE,
    PAGES,
    assert_film_is_in,
    assert_player_shows,
    assert_slot_shows,
    come_near,
    film_of,
    marked_lines,
    pick,
    player,
    section_lines,
    shown_slots,
    time_of,
    wait_for_frame,
)

pytestmark = pytest.mark.browser

HALF_A_FRAME = 0.5


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_each_step_picked_is_the_step_shown(
    open_page: OpenPage, films: Path, origin: str, theme: str
) -> None:
    film, trace = film_of(films, "fa1"), kernels.recorded("fa1")
    page = open_page(f"{origin}/{PAGE}", color_scheme=theme)
    figure = player(page)
    come_near(figure)
    assert figure.locator("button[data-step]").count() == len(film["steps"])
    for step in reversed(film["steps"]):
        pick(figure, step)
        assert page.evaluate("location.hash") == f"#fa1-{step['id']}"
        assert_player_shows(figure, film, trace, step)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_narrow_window_shows_the_step_picked(
    open_page: OpenPage, films: Path, origin: str, theme: str
) -> None:
    film, trace = film_of(films, "fa1"), kernels.recorded("fa1")
    page = open_page(f"{origin}/{PAGE}", width=390, color_scheme=theme, reduced_motion="reduce")
    figure = player(page)
    come_near(figure)
    for step in film["steps"][::5]:
        pick(figure, step)
        assert_player_shows(figure, film, trace, step)


def test_mkdocs_serve_shows_the_step_picked(open_page: OpenPage, films: Path, from_mkdocs_serve: str) -> None:
    film, trace = film_of(films, "fa1"), kernels.recorded("fa1")
    page = open_page(f"{from_mkdocs_serve}/{PAGE}", reduced_motion="reduce")
    figure = player(page)
    come_near(figure)
    for step in reversed(film["steps"]):
        pick(figure, step)
        assert_player_shows(figure, film, trace, step)


@pytest.mark.parametrize(
    ("recording", "every"),
    [
        ("online-softmax", 1),
        ("fa2", 1),
        ("fa2-causal", 1),
        ("flash-decoding", 1),
        ("fa1-n64", 17),
        ("fa2-n64", 5),
        ("flash-decoding-n128", 5),
    ],
)
def test_each_step_of_every_other_player_too(
    open_page: OpenPage, films: Path, with_ranges: str, recording: str, every: int
) -> None:
    film, trace = film_of(films, recording), kernels.recorded(recording)
    page = open_page(f"{with_ranges}/{PAGES[recording]}", reduced_motion="reduce")
    figure = player(page, recording)
    come_near(figure)
    assert figure.locator("button[data-step]").count() == len(film["steps"])
    for step in film["steps"][::every]:
        pick(figure, step)
        figure.locator(".snapshot .slot").first.wait_for()
        assert_player_shows(figure, film, trace, step)


@pytest.mark.parametrize("recording", ["fa2", "flash-decoding"])
def test_a_block_starts_with_empty_slots_and_no_traffic(
    open_page: OpenPage, films: Path, with_ranges: str, recording: str
) -> None:
    film, trace = film_of(films, recording), kernels.recorded(recording)
    figure = player(open_page(f"{with_ranges}/{PAGES[recording]}", reduced_motion="reduce"), recording)
    come_near(figure)
    openings = [step for step in film["steps"] if step["trace_step"] is None]
    following = [trace.steps[film["steps"][film["steps"].index(step) + 1]["trace_step"]] for step in openings]
    assert len(openings) > 1
    for opening, first in reversed(list(zip(openings, following, strict=True))):
        pick(figure, opening)
        shown = shown_slots(figure)
        assert [shown[name] for name in first.sram] == [[]] * len(first.sram)
        for name, values in first.hbm.start.items():
            assert_slot_shows(shown[name], values, name)
        said = figure.locator(".bar .block").text_content()
        assert said is not None
        assert said.endswith(f"({', '.join(map(str, first.block[: said.count(',')]))})")


def test_the_film_of_the_theme_is_shown(open_page: OpenPage, origin: str) -> None:
    page = open_page(f"{origin}/{PAGE}", color_scheme="dark")
    video = player(page).locator("video")
    video.scroll_into_view_if_needed()
    page.wait_for_function("document.querySelector('video').readyState > 0")
    assert "dark" in video.get_attribute("poster")
    if origin.startswith("file"):
        assert video.evaluate("video => video.currentSrc").endswith("fa1/dark.mp4")


def test_a_step_plays_to_its_end_and_stops(open_page: OpenPage, films: Path, with_ranges: str) -> None:
    film = film_of(films, "fa1")
    step = min(film["steps"][1:], key=lambda each: each["frames"])
    figure = player(open_page(f"{with_ranges}/{PAGE}"))
    pick(figure, step)
    figure.page.wait_for_function("document.querySelector('video').paused", timeout=20_000)
    wait_for_frame(figure)
    last = step["first_frame"] + step["frames"] - 1
    assert time_of(figure) * film["fps"] == pytest.approx(last + HALF_A_FRAME, abs=0.1)
    assert figure.locator("button[aria-current]").get_attribute("data-step") == step["id"]


def test_a_pick_seeks_to_the_middle_of_the_first_frame(
    open_page: OpenPage, films: Path, with_ranges: str
) -> None:
    film = film_of(films, "fa1")
    step = film["steps"][7]
    figure = player(open_page(f"{with_ranges}/{PAGE}#fa1-{step['id']}"))
    wait_for_frame(figure)
    assert time_of(figure) * film["fps"] == pytest.approx(step["first_frame"] + HALF_A_FRAME, abs=0.01)
    assert figure.locator("button[aria-current]").get_attribute("data-step") == step["id"]
    assert figure.locator("video").evaluate("video => video.paused")
    figure.page.wait_for_timeout(200)
    assert 0 <= figure.evaluate("figure => figure.getBoundingClientRect().top") < 200


def test_list_and_code_follow_while_the_film_plays_on(
    open_page: OpenPage, films: Path, with_ranges: str
) -> None:
    film = film_of(films, "fa1")
    step, following = film["steps"][3:5]
    figure = player(open_page(f"{with_ranges}/{PAGE}"))
    figure.locator("video").scroll_into_view_if_needed()
    wait_for_frame(figure)
    figure.locator("video").evaluate(
        "(video, time) => { video.currentTime = time; return video.play(); }",
        (step["first_frame"] + step["frames"] - 2) / film["fps"],
    )
    figure.locator(f'button[data-step="{following["id"]}"][aria-current]').wait_for()
    assert marked_lines(figure) == section_lines(
        "fa1", kernels.recorded("fa1").steps[following["trace_step"]].name
    )


def test_arrow_keys_pick_the_next_and_the_previous_step(
    open_page: OpenPage, films: Path, with_ranges: str
) -> None:
    steps = film_of(films, "fa1")["steps"]
    figure = player(open_page(f"{with_ranges}/{PAGE}"))
    pick(figure, steps[4])
    for key, expected in (("ArrowRight", 5), ("ArrowRight", 6), ("ArrowLeft", 5), ("Home", 0), ("End", -1)):
        figure.page.keyboard.press(key)
        assert figure.locator("button[aria-current]").get_attribute("data-step") == steps[expected]["id"], key


def test_buttons_go_back_again_and_forth(open_page: OpenPage, films: Path, with_ranges: str) -> None:
    steps = film_of(films, "fa1")["steps"]
    figure = player(open_page(f"{with_ranges}/{PAGE}"))
    pick(figure, steps[4])
    for name, expected in (("next", 5), ("replay", 5), ("previous", 4)):
        figure.locator(f'[data-do="{name}"]').click()
        assert figure.locator("button[aria-current]").get_attribute("data-step") == steps[expected]["id"], (
            name
        )


def test_where_motion_is_unwelcome_no_film_moves(open_page: OpenPage, films: Path, with_ranges: str) -> None:
    film = film_of(films, "fa1")
    figure = player(open_page(f"{with_ranges}/{PAGE}", reduced_motion="reduce"))
    pick(figure, film["steps"][5])
    assert_film_is_in(figure, film, film["steps"][5])
    assert figure.locator("video").evaluate("video => video.paused")


def test_a_switch_of_theme_keeps_the_place(open_page: OpenPage, films: Path, origin: str) -> None:
    film = film_of(films, "fa1")
    step = film["steps"][9]
    page = open_page(f"{origin}/{PAGE}", color_scheme="light", reduced_motion="reduce")
    figure = player(page)
    pick(figure, step)
    before = time_of(figure)
    page.locator("label.md-header__button[title='Switch to the dark theme']").click()
    page.wait_for_function("document.querySelector('video').poster.includes('dark')")
    wait_for_frame(figure)
    assert time_of(figure) == pytest.approx(before, abs=0.01)
    assert figure.locator("button[aria-current]").get_attribute("data-step") == step["id"]


def test_a_link_to_a_step_plays_it(open_page: OpenPage, films: Path, with_ranges: str) -> None:
    film, trace = film_of(films, "fa1"), kernels.recorded("fa1")
    page = open_page(f"{with_ranges}/{PAGE}", reduced_motion="reduce")
    page.locator(".carries a").nth(2).click()
    figure = player(page)
    wait_for_frame(figure)
    shown = figure.locator("button[aria-current]").get_attribute("data-step")
    step = next(each for each in film["steps"] if each["id"] == shown)
    traced = trace.steps[step["trace_step"]]
    assert (traced.name, dict(traced.loop)) == ("update", {"j": 1, "i": 0})
    assert_film_is_in(figure, film, step)
    assert 0 <= figure.evaluate("figure => figure.getBoundingClientRect().top") < 200


def test_play_on_goes_past_the_end_of_the_step(open_page: OpenPage, films: Path, with_ranges: str) -> None:
    steps = film_of(films, "fa1")["steps"]
    step = min(steps[1:-1], key=lambda each: each["frames"])
    following = steps[steps.index(step) + 1]
    figure = player(open_page(f"{with_ranges}/{PAGE}", reduced_motion="reduce"))
    pick(figure, step)
    figure.locator('[data-do="play-on"]').click()
    figure.locator(f'button[data-step="{following["id"]}"][aria-current]').wait_for()
    figure.locator('[data-do="play-on"]').click()
    assert figure.locator("video").evaluate("video => video.paused")
