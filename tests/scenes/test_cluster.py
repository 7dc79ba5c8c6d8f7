"""A Dask cluster of two local workers makes the very films made here; what goes wrong there is said in a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import kernels
from scenes.__main__ import main
from scenes.cluster import make_away
from scenes.errors import SceneError
from scenes.orders import Order, cluster_of

distributed = pytest.importorskip("distributed", reason="the extra `cluster` is not installed")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with distributed.LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=":0") as cluster:
        yield cluster


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.trace"
    kernels.record("fa1", None, backend="cpu", N=2, d=2, Br=2, Bc=1, batch_heads=1).save(path)
    return path


def _render(trace: Path, out: Path, *more: str) -> Any:
    return CliRunner().invoke(
        main, ["render", "--trace", str(trace), "--quality", "l", "--steps", "0:2", "--out", str(out), *more]
    )


def _executor(cluster: Any) -> str:
    return str(cluster.scheduler_address).replace("tcp://", "dask://")


@pytest.mark.slow
def test_two_workers_make_the_very_films_made_here(cluster: Any, trace: Path, tmp_path: Path) -> None:
    away, here = tmp_path / "away", tmp_path / "here"

    result = _render(trace, away, "--executor", _executor(cluster))
    assert result.exit_code == 0, result.output
    assert result.output.count("made") == 2
    assert _render(trace, here).exit_code == 0

    made = {path.name: path.read_bytes() for path in (here / "tiny").iterdir()}
    assert len(made) == 9
    assert {path.name: path.read_bytes() for path in (away / "tiny").iterdir()} == made

    again = _render(trace, away, "--executor", _executor(cluster))
    assert again.output.count("up to date") == 2


def test_what_a_film_fails_for_comes_back_as_its_sentence(cluster: Any, trace: Path, tmp_path: Path) -> None:
    away = tmp_path / "away"
    with distributed.Client(cluster) as client, client.get_executor(pure=False) as pool:
        order = Order("tiny", trace, "light", "l", away / "tiny")
        with pytest.raises(kernels.TraceError, match="tiny"):
            pool.submit(make_away, order, _key_of(order, b"no trace"), b"no trace").result()
        with pytest.raises(SceneError, match="another version"):
            pool.submit(make_away, order, "0" * 64, trace.read_bytes()).result()
    assert not away.exists()


def _key_of(order: Order, content: bytes) -> str:
    order.trace.write_bytes(content)
    return order.key()


def test_a_cluster_without_workers_is_refused(trace: Path, tmp_path: Path) -> None:
    with distributed.LocalCluster(
        n_workers=0, processes=False, dashboard_address=":0", protocol="tcp"
    ) as empty:
        result = _render(trace, tmp_path / "out", "--executor", _executor(empty))
    assert result.exit_code == 2
    last = result.output.splitlines()[-1]  # the scheduler's own log stands above
    assert last.startswith("error: ")
    assert "has no workers" in last


def test_a_scheduler_that_is_not_there_is_named(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scenes.cluster._PATIENCE", 1)
    result = _render(trace, tmp_path / "out", "--executor", "dask://127.0.0.1:1")
    assert (result.exit_code, result.output.count("\n")) == (2, 1)
    assert "no Dask scheduler answers at tcp://127.0.0.1:1" in result.output


@pytest.mark.parametrize(
    "text", ["", "dask://", "dask://host", "dask://:8786", "tcp://host:8786", "dask://h:x", "local"]
)
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(SceneError, match="dask://HOST:PORT"):
        cluster_of(text)
