"""The Markdown blocks, without a site around them."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from markdown import markdown

import kernels
from docs.blocks.carries import carries_table, update_at
from docs.blocks.formulas import FormulaError, render
from docs.blocks.player import provenance_line
from docs.blocks.trips import TripsError, trips_table
from docs.film import FilmError, load_film
from docs.numbers import written
from docs.sizes import FigureError
from docs.source import listing, source_of
from tests.docs.conftest import ROOT


def cells(html: str, kind: str = "td") -> list[list[str]]:
    """The text of a table's cells, row by row."""
    rows = re.findall(r"<tr>(.*?)</tr>", html)
    found = [
        [unescape(re.sub("<.*?>", "", c)) for c in re.findall(rf"<{kind}.*?>(.*?)</{kind}>", row)]
        for row in rows
    ]
    return [row for row in found if row]


def test_a_formula_has_html_mathml_and_its_terms_by_class() -> None:
    html = markdown(r"The max $\m{m_i}$ moves.", extensions=["docs.blocks.formulas"])
    assert 'class="enclosing term-m"' in html
    assert "<math" in html
    assert "$" not in html


def test_a_formula_on_its_own_lines_is_displayed() -> None:
    html = markdown("$$\n\\underbrace{\\O{o}}_{\\text{old}}\n$$", extensions=["docs.blocks.formulas"])
    assert "katex-display" in html


def test_a_wrong_formula_fails_the_build() -> None:
    with pytest.raises(FormulaError, match="frac"):
        render(r"\frac{1}")


def test_code_stands_under_its_numbers_in_the_file() -> None:
    lines = (ROOT / "kernels" / "fa1.cu").read_text().splitlines()
    shown = re.findall(r'data-line="(\d+)".*?</span>(.*?)\n</span>', listing(source_of("fa1")))
    assert {int(number): unescape(re.sub("<.*?>", "", html)) for number, html in shown} == {
        number: line for number, line in enumerate(lines, 1) if "--8<--" not in line
    }


@pytest.mark.parametrize("kernel", ["online_softmax", "fa1", "fa2", "flash_decoding"])
def test_lines_outside_the_steps_are_those_that_run_there(kernel: str) -> None:
    lines = (ROOT / "kernels" / f"{kernel}.cu").read_text().splitlines()
    source = source_of(kernel)
    functions = re.findall(r"__global__ void (\w+)\(", "\n".join(lines))
    assert {name for name in source.between if name.startswith("head:")} == {f"head:{f}" for f in functions}
    for name, numbers in source.between.items():
        assert not any(number in section for number in numbers for section in source.sections.values())
        if name.startswith("skip:"):
            (number,) = numbers
            assert re.search(r"if \(causal && .*\) (continue|break);", lines[number - 1])
        else:
            assert lines[numbers.start - 1].startswith("template")
            assert (
                f"[start:{next(iter(sections_after(source.sections, numbers)))}]" in lines[numbers.stop - 1]
            )
    causal = any("causal &&" in line for line in lines)
    assert causal == any(name.startswith("skip:") for name in source.between)


def sections_after(sections: dict[str, range], numbers: range) -> list[str]:
    return sorted(
        (name for name, section in sections.items() if section.start > numbers.start),
        key=lambda name: sections[name].start,
    )


def test_carries_are_those_of_the_trace() -> None:
    trace = kernels.recorded("fa1")
    for loop in ({"j": 0, "i": 0}, {"j": 0, "i": 1}, {"j": 1, "i": 0}, {"j": 1, "i": 1}):
        before, after = update_at(trace, loop)
        assert (before.name, after.name) == ("compute", "update")
        held = [step.held(name) for name in ("mi", "li", "Oi") for step in (before, after)]
        expected = np.hstack([values.reshape(len(values), -1) for values in held if values is not None])
        assert cells(carries_table(trace, before, after)) == [[written(v) for v in row] for row in expected]


def test_rows_of_carries_are_numbered_as_in_the_matrix() -> None:
    trace = kernels.recorded("fa1")
    for loop, rows in (({"j": 1, "i": 0}, range(4)), ({"j": 1, "i": 1}, range(4, 8))):
        html = carries_table(trace, *update_at(trace, loop))
        assert re.findall(r'<th scope="row">(\d+)</th>', html) == [str(row) for row in rows]


def test_carries_refuse_an_iteration_that_is_not_there() -> None:
    with pytest.raises(LookupError, match="no update at"):
        update_at(kernels.recorded("fa1"), {"j": 9, "i": 0})


def test_trips_are_those_counted() -> None:
    trace = kernels.recorded("fa1")
    read, wrote = (
        {"Q": "Tc", "K": 1, "V": 1, "O": "Tc", "l": "Tc", "m": "Tc"},
        {"O": "Tc", "l": "Tc", "m": "Tc"},
    )
    rows = cells(trips_table(trace, read, wrote))
    for array, row in zip(trace.layout.arrays, rows, strict=False):
        total = trace.traffic[array.name]
        assert row[1].endswith(f" = {total.reads}")
        assert row[2].endswith(f" = {total.writes}" if total.writes else "never")
        assert row[3] == str(total.transfers)


def test_a_page_cannot_state_trips_that_were_not_counted() -> None:
    with pytest.raises(TripsError, match="Q is read 1 times"):
        trips_table(kernels.recorded("fa1"), {"Q": 1, "K": 1, "V": 1, "O": "Tc", "l": "Tc", "m": "Tc"}, {})


def test_a_run_on_a_cpu_says_so() -> None:
    trace = kernels.recorded("fa1")
    on_cpu = replace(trace, provenance=replace(trace.provenance, backend="cpu", device="some CPU"))
    assert "not on a GPU" in provenance_line(on_cpu)


def test_a_missing_film_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(FilmError, match="python -m scenes render fa1"):
        load_film("fa1", tmp_path)


def test_a_number_in_prose_comes_from_the_recording() -> None:
    html = markdown("[=fa1.Tc] turns", extensions=["docs.blocks.from_trace"])
    assert f">{-(-8 // 4)}</span> turns" in html
    assert ">192</span>" in markdown("[=fa1.read.K]", extensions=["docs.blocks.from_trace"])
    with pytest.raises(FigureError, match="nothing"):
        markdown("[=fa1.nothing]", extensions=["docs.blocks.from_trace"])


@pytest.mark.parametrize(
    ("value", "text"), [(-np.inf, "−∞"), (-0.0001, "0.000"), (-1.5, "−1.500"), (2, "2.000")]
)
def test_numbers_are_written_with_a_true_minus_and_infinity(value: float, text: str) -> None:
    assert written(value) == text
