"""Films made by the workers of a Dask cluster (https://distributed.dask.org).

The workers need this project with its extra ``scenes``, the same version of both, and share no files with this
machine: a trace goes there as bytes, and a film comes back so.
"""

from __future__ import annotations

import json
import logging
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, as_completed
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kernels.errors import KernelsError
from scenes.errors import SceneError
from scenes.orders import Order

if TYPE_CHECKING:
    from distributed import Client

_PATIENCE = 10  # seconds for the scheduler to answer


def make_on_cluster(
    address: str, wanted: Sequence[tuple[Order, str]], report: Callable[[Order, int, int], None]
) -> None:
    """Make films of orders with their keys on the cluster whose scheduler is at `address` (``tcp://HOST:PORT``).

    `report` is told the steps of each film when it is there. Raises SceneError if the cluster cannot be reached, has no
    worker or cannot make a film, and the first KernelsError of a film; films that came before are kept.
    """
    with _connected(address) as client, client.get_executor(pure=False) as workers:
        orders = {
            workers.submit(make_away, order, key, order.trace.read_bytes()): (order, key)
            for order, key in wanted
        }
        for future in as_completed(orders):
            order, key = orders[future]
            try:
                files = future.result()
            except KernelsError:
                workers.shutdown(wait=False)
                raise
            except Exception as error:  # whatever a worker, or its loss, raises
                workers.shutdown(wait=False)
                lost = isinstance(error, CancelledError)
                reason = (
                    "its scheduler was lost" if lost else " ".join(f"{type(error).__name__}: {error}".split())
                )
                raise SceneError(
                    f"the cluster could not make the film of {order.recording}, {order.theme}: {reason}"
                ) from error
            _keep(order, key, files)
            steps = len(json.loads(order.folder.joinpath("steps.json").read_bytes())["steps"])
            report(order, steps, steps)


def _connected(address: str) -> Client:
    """The cluster at `address`; SceneError if there is none, or none with a worker."""
    try:
        from distributed import Client
    except ImportError as error:
        raise SceneError(
            "a Dask cluster needs this project's extra `cluster`: pip install -e '.[cluster]'"
        ) from error
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # a loss is told by the error raised
    try:
        client = Client(address, timeout=_PATIENCE, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise SceneError(f"no Dask scheduler answers at {address}: start one, or name another") from error
    if not client.scheduler_info()["workers"]:
        client.close()  # type: ignore[no-untyped-call]
        raise SceneError(f"the Dask scheduler at {address} has no workers: start some with `dask worker`")
    return client


_ONE_AT_A_TIME = (
    threading.Lock()
)  # in one worker, which may have several threads: Manim's settings are global


def make_away(order: Order, key: str, trace: bytes) -> list[bytes]:
    """On a worker: make the film of an order whose trace is given, and hand over what is in its files.

    Raises SceneError if it would not be the film that `key` stands for, and whatever `make` raises.
    """
    from scenes.make import make

    with _ONE_AT_A_TIME, tempfile.TemporaryDirectory() as folder:
        path = Path(folder, order.trace.name)
        path.write_bytes(trace)
        here = replace(order, trace=path, folder=Path(folder, order.folder.name))
        if here.key() != key:
            raise SceneError(
                "a worker of the cluster has another version of this project, or of the programs that draw: "
                "install there what is installed here"
            )
        make(here, key)
        return [file.read_bytes() for file in here.files]


def _keep(order: Order, key: str, files: Sequence[bytes]) -> None:
    from scenes.make import put_in_place, workplace

    with workplace(order.folder, order.name) as place:
        paths = [place / target.name for target in order.files]
        for path, content in zip(paths, files, strict=True):
            path.write_bytes(content)
        put_in_place(order, key, paths)
