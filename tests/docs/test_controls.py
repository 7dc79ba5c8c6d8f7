"""What a reader can do with a player beyond picking steps, in Chromium."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Locator

import kernels
from tests.docs.conftest import OpenPage
from tests.docs.reading import PAGE, PAGES, come_near, film_of, pick, player

pytestmark = pytest.mark.browser


def shown_step(figure: Locator) -> str | None:
    return figure.locator("button[data-step][aria-current]").get_attribute("data-step")


@pytest.fixture
def figure(open_page: OpenPage, with_ranges: str) -> Locator:
    """The player of FlashAttention-1, where nothing moves by itself."""
    found = player(open_page(f"{with_ranges}/{PAGE}", reduced_motion="reduce"))
    come_near(found)
    return found


def test_digits_pick_the_first_to_the_ninth_step(figure: Locator, films: Path) -> None:
    steps = film_of(films, "fa1")["steps"]
    figure.focus()
    for digit in (3, 9, 1):
        figure.page.keyboard.press(str(digit))
        assert shown_step(figure) == steps[digit]["id"]


def test_space_plays_on_and_pauses_when_the_player_has_focus(figure: Locator) -> None:
    figure.focus()
    figure.page.keyboard.press("Space")
    figure.page.wait_for_function("!document.querySelector('video').paused")
    figure.page.keyboard.press("Space")
    figure.page.wait_for_function("document.querySelector('video').paused")


def test_a_question_mark_lists_the_keys(figure: Locator) -> None:
    figure.focus()
    figure.page.keyboard.press("?")
    assert figure.locator(".help").is_visible()
    assert figure.locator('[data-do="help"]').get_attribute("aria-expanded") == "true"
    figure.page.keyboard.press("?")
    assert not figure.locator(".help").is_visible()


def test_speed_is_that_of_the_film_and_kept(figure: Locator) -> None:
    figure.get_by_label("Speed").select_option("2")
    assert figure.locator("video").evaluate("video => video.playbackRate") == 2
    figure.page.reload()
    figure.scroll_into_view_if_needed()
    figure.page.wait_for_function("document.querySelector('video').readyState > 0")
    assert figure.locator("video").evaluate("video => video.playbackRate") == 2


def test_a_looped_step_begins_again_at_its_end(open_page: OpenPage, films: Path, with_ranges: str) -> None:
    film = film_of(films, "fa1")
    step = min(film["steps"][1:-1], key=lambda each: each["frames"])
    figure = player(open_page(f"{with_ranges}/{PAGE}"))
    figure.get_by_label("Speed").select_option("2")
    pick(figure, step)
    figure.locator('[data-do="loop"]').click()
    starts = figure.locator("video").evaluate(
        """video => new Promise(resolve => {
            let [last, turns] = [0, 0];
            video.addEventListener('timeupdate', () => {
                if (video.currentTime < last) turns += 1;
                last = video.currentTime;
                if (turns === 2) resolve(turns);
            });
        })"""
    )
    assert starts == 2
    assert not figure.locator("video").evaluate("video => video.paused")
    assert shown_step(figure) == step["id"]


def test_the_last_step_is_remembered(figure: Locator, films: Path) -> None:
    film = film_of(films, "fa1")
    step = film["steps"][8]
    pick(figure, step)
    address = figure.page.url.partition("#")[0]
    figure.page.goto("about:blank")
    figure.page.goto(address)
    come_near(figure)
    assert shown_step(figure) == step["id"]
    figure.page.wait_for_function(
        "([from, to]) => { const at = document.querySelector('video').currentTime; return from <= at && at < to; }",
        arg=[step["first_frame"] / film["fps"], (step["first_frame"] + step["frames"]) / film["fps"]],
    )


def test_the_list_is_dragged_onto_the_film_and_back(figure: Locator) -> None:
    page, grip = figure.page, figure.locator(".grip")
    figure.evaluate("figure => figure.scrollIntoView()")
    film, start = figure.locator(".stage").bounding_box(), grip.bounding_box()
    assert film is not None
    assert start is not None
    page.mouse.move(start["x"] + 5, start["y"] + 5)
    page.mouse.down()
    page.mouse.move(film["x"] + 200, film["y"] + 100, steps=4)
    page.mouse.up()
    assert grip.get_attribute("aria-pressed") == "true"
    listed, film = figure.locator(".list").bounding_box(), figure.locator(".stage").bounding_box()
    assert listed is not None
    assert film is not None
    assert film["x"] <= listed["x"]
    assert listed["x"] + listed["width"] <= film["x"] + film["width"] + 1
    assert listed["y"] + listed["height"] <= film["y"] + film["height"] + 1
    grip.focus()
    page.keyboard.press("ArrowDown")
    moved = figure.locator(".list").bounding_box()
    assert moved is not None
    assert moved["y"] > listed["y"]
    page.reload()
    assert grip.get_attribute("aria-pressed") == "true"
    grip.focus()
    page.keyboard.press("Enter")
    assert grip.get_attribute("aria-pressed") == "false"


@pytest.mark.parametrize("recording", ["fa1", "fa1-n64"])
@pytest.mark.parametrize(("width", "height"), [(1366, 640), (1366, 768), (1440, 900), (1920, 1080)])
def test_film_controls_and_list_stay_in_view_while_reading_on(
    open_page: OpenPage, with_ranges: str, recording: str, width: int, height: int
) -> None:
    page = open_page(f"{with_ranges}/{PAGE}", reduced_motion="reduce")
    page.set_viewport_size({"width": width, "height": height})
    figure = player(page, recording)
    come_near(figure)
    pick(figure, {"id": "s08"})
    header = page.locator(".md-header").evaluate("header => header.getBoundingClientRect().bottom")
    for panel in (".formulas", ".code", ".snapshot", ".traffic"):
        figure.locator(panel).evaluate("panel => panel.scrollIntoView({ block: 'nearest' })")
        for name in (".stage", ".bar", ".list", ".grip", 'button[data-step="s08"]'):
            box = figure.locator(name).bounding_box()
            assert box is not None
            assert header <= box["y"], (panel, name)
            assert box["y"] + box["height"] <= height, (panel, name)
    film, listed = (figure.locator(name).bounding_box() for name in ("video", ".list"))
    assert film is not None
    assert listed is not None
    assert film["width"] > 450
    assert listed["height"] > 90


@pytest.mark.parametrize(("width", "times"), [(390, 2), (1440, 1.6)])
def test_the_film_can_be_enlarged(open_page: OpenPage, with_ranges: str, width: int, times: float) -> None:
    page = open_page(f"{with_ranges}/{PAGE}", width=width, reduced_motion="reduce")
    figure = player(page)
    come_near(figure)
    button, video = figure.locator('[data-do="enlarge"]'), figure.locator("video")
    small = video.bounding_box()
    button.click()
    large = video.bounding_box()
    assert small is not None
    assert large is not None
    assert large["width"] >= times * small["width"]
    assert button.get_attribute("aria-pressed") == "true"
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if width < 960:
        figure.locator(".stage").focus()
        page.keyboard.press("ArrowRight")
        page.wait_for_function("document.querySelector('.kernel-player .stage').scrollLeft > 0")
    button.click()
    assert video.bounding_box() == small


def test_large_snapshots_are_loaded_when_asked_for(open_page: OpenPage, origin: str) -> None:
    page = open_page(f"{origin}/{PAGE}", reduced_motion="reduce")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    figure = player(page, "fa1-n64")
    figure.evaluate("figure => figure.scrollIntoView()")
    page.wait_for_function(
        "document.querySelector('[data-recording=\"fa1-n64\"] video').readyState > 0", timeout=15_000
    )
    assert not [url for url in asked if url.endswith("fa1-n64/snapshots.js")]
    figure.get_by_role("button", name="show the numbers").click()
    figure.locator(".snapshot .slot").first.wait_for()
    assert [url for url in asked if url.endswith("fa1-n64/snapshots.js")]
    assert figure.locator(".traffic tbody tr").count() > 1


def test_a_picked_step_asks_for_large_snapshots(open_page: OpenPage, with_ranges: str) -> None:
    figure = player(open_page(f"{with_ranges}/{PAGE}", reduced_motion="reduce"), "fa1-n64")
    pick(figure, {"id": "s08"})
    figure.locator(".snapshot .slot").first.wait_for()
    assert figure.get_by_role("button", name="show the numbers").count() == 0


def test_a_heat_map_says_how_much_of_it_changed(open_page: OpenPage, films: Path, with_ranges: str) -> None:
    trace, film = kernels.recorded("fa1-n64"), film_of(films, "fa1-n64")
    figure = player(open_page(f"{with_ranges}/{PAGE}", reduced_motion="reduce"), "fa1-n64")
    come_near(figure)
    step = next(
        each
        for each in film["steps"][40:]
        if each["trace_step"] and trace.steps[each["trace_step"]].name == "update"
    )
    after = trace.steps[step["trace_step"]]
    before = trace.steps[step["trace_step"] - 1]
    pick(figure, step)
    for name in ("Oi", "mi"):
        changed = int((after.held(name) != before.held(name)).sum())
        says = figure.locator(f'.slot[data-slot="{name}"] small').text_content()
        assert says is not None
        assert says.endswith(f"; {changed} of {after.held(name).size} changed")
    assert "changed" not in (figure.locator('.slot[data-slot="Qi"] small').text_content() or "")


def test_a_heat_map_says_what_its_blank_cells_stand_for(open_page: OpenPage, with_ranges: str) -> None:
    figure = player(open_page(f"{with_ranges}/{PAGE}", reduced_motion="reduce"), "fa1-n64")
    pick(figure, {"id": "s00"})
    says = figure.locator('.slot[data-slot="m"] canvas').get_attribute("aria-label")
    assert says is not None
    assert says.endswith("64 × 1 numbers, −∞ (blank)")


def test_the_code_that_launches_is_a_tab_away(figure: Locator) -> None:
    figure.locator('[data-code="host"]').click()
    host = figure.locator(".host")
    assert host.is_visible()
    assert not figure.locator(".code > pre").is_visible()
    files = host.locator(".file").all_text_contents()
    assert files == ["kernels/fa1.py", "kernels/backend/cupy.py"]
    for place, file in zip(host.locator("pre").all(), files, strict=True):
        source = (Path(kernels.__file__).parents[1] / file).read_text().splitlines()
        for line in place.locator("[data-line]").all():
            number = int(line.get_attribute("data-line") or 0)
            assert (line.text_content() or "").rstrip("\n") == f"{number}{source[number - 1]}"
    figure.locator('[data-code="kernel"]').click()
    assert figure.locator(".code > pre").is_visible()


@pytest.mark.parametrize("recording", ["online-softmax", "fa1", "fa2", "flash-decoding"])
def test_the_formula_of_the_step_is_lit(
    open_page: OpenPage, films: Path, with_ranges: str, recording: str
) -> None:
    trace = kernels.recorded(recording)
    figure = player(open_page(f"{with_ranges}/{PAGES[recording]}", reduced_motion="reduce"), recording)
    seen = set()
    for step in film_of(films, recording)["steps"]:
        name = None if step["trace_step"] is None else trace.steps[step["trace_step"]].name
        if name in seen:
            continue
        seen.add(name)
        pick(figure, step)
        lit = figure.locator(".formulas .active").evaluate_all(
            "parts => parts.map(part => [...part.classList].find(name => name.startsWith('of-')))"
        )
        assert set(lit) == (set() if name is None else {f"of-{name}"})
        says = "this step computes nothing" if name is None else "this step's are marked"
        assert figure.locator(".formulas .which").text_content() == says


def test_a_term_and_its_slots_light_each_other(figure: Locator) -> None:
    pick(figure, {"id": "s03"})
    figure.locator(".formulas .term-l").first.hover()
    lit = figure.locator(".slot.lit").evaluate_all("slots => slots.map(slot => slot.dataset.slot)")
    assert lit == ["li", "l"]
    figure.locator('[data-slot="Qi"]').hover()
    terms = figure.locator(".formulas .lit").evaluate_all("terms => terms.map(term => term.textContent)")
    assert terms
    assert all("Q" in term for term in terms)


def test_a_row_is_followed_through_all_steps(figure: Locator, films: Path) -> None:
    trace, film = kernels.recorded("fa1"), film_of(films, "fa1")
    step = film["steps"][-1] if film["steps"][-1]["trace_step"] is not None else film["steps"][-2]
    pick(figure, step)
    row, tile = 5, trace.params["Br"]
    figure.get_by_label("The row to follow").select_option(str(row))
    for place in ("mi", "li"):
        held = [
            each.sram[place][row % tile]
            for each in trace.steps_of((0, 0, 0))
            if each.loop.get("i") == row // tile and each.sram[place] is not None
        ]
        finite = [float(value) for value in held if np.isfinite(value)]
        label = figure.locator(f'.row svg[aria-label^="{place}, row {row}"]').get_attribute("aria-label")
        assert label is not None
        low, high = (f"{value:.2f}".replace("-", "−") for value in (min(finite), max(finite)))
        assert label.endswith(f"{low} to {high}")


def test_a_step_is_copied_as_numpy(open_page: OpenPage, films: Path, with_ranges: str) -> None:
    trace = kernels.recorded("fa1")
    step = film_of(films, "fa1")["steps"][4]
    figure = player(
        open_page(
            f"{with_ranges}/{PAGE}",
            reduced_motion="reduce",
            permissions=["clipboard-read", "clipboard-write"],
        )
    )
    come_near(figure)
    pick(figure, step)
    figure.locator(".snapshot .copy").click()
    figure.get_by_role("button", name="copied").wait_for()
    held: dict[str, np.ndarray] = {}
    exec(figure.page.evaluate("navigator.clipboard.readText()"), {"np": np}, held)
    traced = trace.steps[step["trace_step"]]
    for name in traced.sram:
        values = traced.held(name)
        if values is not None:
            assert np.array_equal(held[name], values.reshape(values.shape[0], -1)), name
    for name, values in traced.hbm.items():
        assert np.array_equal(held[name], values.reshape(values.shape[0], -1)), name


def test_on_paper_each_step_has_its_still_and_caption(figure: Locator, films: Path) -> None:
    assert not figure.locator(".stills").is_visible()
    figure.page.emulate_media(media="print")
    steps = film_of(films, "fa1")["steps"]
    stills = figure.locator(".stills li")
    assert stills.all_text_contents() == [f"{step['label']}: {step['caption']}" for step in steps]
    assert stills.first.is_visible()
    assert not figure.locator("video").is_visible()
    wide = figure.locator(".stills img").evaluate_all(
        """images => Promise.all(images.map(image => {
            image.loading = 'eager';
            return image.decode().then(() => image.naturalWidth);
        }))"""
    )
    assert wide == [640] * len(steps)


def test_paper_is_light_and_shows_what_is_folded(open_page: OpenPage, with_ranges: str) -> None:
    page = open_page(f"{with_ranges}/{PAGE}", color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    for name, element in (("background-color", "body"), ("background-color", ".kernel-code code")):
        found = page.locator(element).first.evaluate(f"element => getComputedStyle(element)['{name}']")
        channels = [int(number) for number in found.removeprefix("rgb(").removesuffix(")").split(",")]
        assert min(channels) > 240, (element, found)
    assert page.locator(".derivation p").last.is_visible()
    assert not page.locator(".derivation").first.evaluate("fold => fold.open")


def test_the_caption_is_spoken_politely(figure: Locator, films: Path) -> None:
    step = film_of(films, "fa1")["steps"][5]
    pick(figure, step)
    live = figure.locator('[aria-live="polite"]')
    assert step["caption"] in (live.text_content() or "")
    assert live.get_attribute("aria-atomic") == "true"
