"""The counts of what crosses HBM: against the formula, and shown to move when the kernel moves more."""

from __future__ import annotations

from pathlib import Path

import pytest

import kernels
from kernels.run import record_job

from .planted import CPU, job_of, planted


def test_k_and_v_are_read_once_and_the_rest_once_for_each_of_their_tiles() -> None:
    trace = kernels.recorded("fa1")
    N, d, heads, Tc = 8, 4, 6, 2
    counts = {name: (total.reads, total.writes) for name, total in trace.traffic.items()}
    assert counts == {
        "K": (heads * N * d, 0),
        "V": (heads * N * d, 0),
        "Q": (heads * Tc * N * d, 0),
        "O": (heads * Tc * N * d, heads * Tc * N * d),
        "l": (heads * Tc * N, heads * Tc * N),
        "m": (heads * Tc * N, heads * Tc * N),
    }


def test_bytes_are_four_for_each_element_and_transfers_one_for_each_array_step_and_direction() -> None:
    total = kernels.recorded("fa1").traffic["O"]
    assert (total.bytes_read, total.bytes_written) == (4 * 384, 4 * 384)
    assert total.transfers == 6 * 2 * (2 + 2)  # heads, then loads and writes of Tr tiles in Tc turns


def test_a_step_says_which_rows_and_columns_it_touched() -> None:
    step = kernels.recorded("fa1").steps_of((3, 0, 0))[14]
    assert (step.name, step.loop) == ("load_q", {"j": 1, "i": 1})
    touched = step.traffic["Q"]
    assert (touched.reads, touched.writes, touched.rows, touched.columns, touched.head) == (
        16,
        0,
        (4, 8),
        (0, 4),
        3,
    )


@pytest.mark.parametrize(
    ("old", "new", "array", "extra"),
    [
        ("float s = 0;", "float s = 0 * K[0];", "K", 2 * 8 * 8),
        ("float m_new = mi[r];", "float m_new = mi[r] + 0 * O[0];", "O", 2 * 8 * 2),
        (
            "float m_new = mi[r];",
            "Hbm<const float> other = Q + 1; float m_new = mi[r] + 0 * *other;",
            "Q",
            2 * 8 * 2,
        ),
    ],
)
def test_a_planted_read_moves_the_count(tmp_path: Path, old: str, new: str, array: str, extra: int) -> None:
    honest = record_job(job_of(planted(tmp_path, "float s = 0;", "float s = 0; "), batch_heads=2), CPU)
    kernel = planted(tmp_path, old, new)
    trace = record_job(job_of(kernel, batch_heads=2), CPU)
    assert trace.traffic[array].reads - honest.traffic[array].reads == extra
    assert any(array in finding.what for finding in kernels.verify(trace, kernel).findings)
