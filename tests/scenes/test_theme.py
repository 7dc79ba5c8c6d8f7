"""Whether all that meets on the canvas can be told apart."""

from __future__ import annotations

import itertools

import pytest

from scenes.block_grid import ZoomLines
from scenes.errors import SceneError
from scenes.theme import THEMES, Theme, contrast, mix, theme_named

TEXT, MARK = 4.5, 3.0  # WCAG 2.2: 1.4.3 for text, 1.4.11 for what is not

themes = pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)


def test_contrast_is_that_of_wcag() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@themes
def test_text_can_be_read_on_what_is_behind_it(theme: Theme) -> None:
    for text in (theme.ink, theme.dim, *(hue.text for hue in theme.hues.values())):
        for behind in (theme.paper, theme.panel):
            assert contrast(text, behind) >= TEXT, (text, behind)


@themes
def test_words_beside_the_block_grid_can_be_read_on_the_beam_of_the_zoom_lines(theme: Theme) -> None:
    beam = mix(theme.paper, theme.rule, ZoomLines(theme).beam.fill_opacity)
    for text in (theme.ink, theme.dim):
        assert contrast(text, beam) >= TEXT


@themes
def test_numbers_can_be_read_on_every_fill(theme: Theme) -> None:
    for hue in theme.hues.values():
        for step in range(11):
            assert contrast(theme.ink, hue.fill(step / 10)) >= TEXT


@themes
def test_outlines_can_be_seen(theme: Theme) -> None:
    assert contrast(theme.line, theme.panel) >= MARK
    assert contrast(theme.line, theme.paper) >= MARK
    for hue in theme.hues.values():
        assert contrast(hue.line, theme.panel) >= MARK


@themes
def test_the_ring_can_be_seen_on_the_panel(theme: Theme) -> None:
    assert contrast(theme.ink, theme.panel) >= MARK


@themes
def test_the_ends_of_a_heat_map_can_be_seen_and_its_minus_too(theme: Theme) -> None:
    for hue in theme.hues.values():
        assert contrast(hue.above, theme.zero) >= MARK
        assert contrast(hue.below, theme.zero) >= MARK


@themes
def test_hatching_and_turns_can_be_seen(theme: Theme) -> None:
    for behind in (theme.panel, theme.paper):
        assert contrast(theme.line, behind) >= MARK
    assert contrast(theme.ink, theme.line) >= MARK  # a turn begun beside one to come, −∞ on its hatching


@themes
def test_outlines_and_crosses_can_be_seen_on_every_heat_map(theme: Theme) -> None:
    """They are in ink with an edge in the panel's colour: one of the two stands out from any colour."""
    for hue in theme.hues.values():
        for end in (hue.above, hue.below):
            for step in range(11):
                color = mix(theme.zero, end, step / 10)
                assert max(contrast(theme.ink, color), contrast(theme.panel, color)) >= MARK


@themes
def test_text_on_paper_and_panel_has_the_contrast_of_text_in_every_hue(theme: Theme) -> None:
    for hue in (*theme.hues.values(), theme.other):
        for behind in (theme.paper, theme.panel):
            assert contrast(hue.text, behind) >= TEXT


@themes
def test_letters_that_mean_different_things_have_different_hues(theme: Theme) -> None:
    for a, b in itertools.combinations("QKVSOlm", 2):
        assert theme.hue(a) != theme.hue(b)


def test_an_unknown_theme_is_refused() -> None:
    with pytest.raises(SceneError, match="there is no theme 'sepia': choose one of light, dark"):
        theme_named("sepia")
