"""Films of recordings, made in parallel, and only those that something changed for."""

from __future__ import annotations

import multiprocessing
import queue
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import suppress

from scenes.orders import Example, Order


def render(
    orders: Sequence[Order],
    jobs: int,
    force: bool,
    report: Callable[[Order, int, int], None],
    cluster: str | None = None,
) -> list[Order]:
    """Make the films that are not up to date, `jobs` at a time; the orders that were carried out.

    With the address of a Dask `cluster` they are made there, as many at a time as it has workers. `report` is told how
    many steps of how many are played. Raises the first KernelsError of a film; the others begun here are finished.
    """
    wanted = []
    for order in orders:
        key = order.key()
        if force or not order.is_made(key):
            wanted.append((order, key))
    if not wanted:
        return []
    if cluster:
        from scenes.cluster import make_on_cluster

        make_on_cluster(cluster, wanted, report)
        return [order for order, _ in wanted]
    if jobs == 1 or len(wanted) == 1:
        for order, key in wanted:
            _make(order, key, lambda done, of, order=order: report(order, done, of))  # type: ignore[misc]
        return [order for order, _ in wanted]
    context = multiprocessing.get_context("spawn")
    with (
        context.Manager() as manager,
        ProcessPoolExecutor(min(jobs, len(wanted)), mp_context=context) as pool,
    ):
        told: queue.Queue[tuple[int, int, int]] = manager.Queue()
        pending: set[Future[None]] = {
            pool.submit(_make_and_tell, order, key, n, told) for n, (order, key) in enumerate(wanted)
        }
        try:
            while pending:
                done, pending = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
                with suppress(queue.Empty):
                    while True:
                        n, played, of = told.get_nowait()
                        report(wanted[n][0], played, of)
                for future in done:
                    future.result()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return [order for order, _ in wanted]


def _make_and_tell(order: Order, key: str, n: int, told: queue.Queue[tuple[int, int, int]]) -> None:
    _make(order, key, lambda done, of: told.put((n, done, of)))


def _make(order: Order, key: str, played: Callable[[int, int], None]) -> None:
    # Manim takes a second to import: not when there is nothing to do
    from scenes.example_films import make_example
    from scenes.make import make

    (make_example if isinstance(order, Example) else make)(order, key, played)
