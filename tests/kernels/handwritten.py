"""Traces written by hand: what threads did, row by row, with no kernel and no backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kernels.listen.log import Site, Source
from kernels.trace.model import ACCESS, SCOPE, Argument, Dim3, Launch, Place, Provenance, StepRecord, Trace

Index = tuple[int, ...]
Cells = Index | list[Index]  # of one thread; several for a wide access


class Hand:
    """One block of one launch, act after act; each `read`, `write`, `atomic` is one instruction of each warp."""

    def __init__(self, block: Dim3 = (32, 1, 1)) -> None:
        self.launch = Launch("by_hand", (1, 1, 1), block, 0, ())
        self.places: list[Place] = []
        self.sites: list[Site] = []
        self.rows: list[tuple[int, ...]] = []
        self.records: list[StepRecord] = []
        self.scopes: list[tuple[int, ...]] = []
        self.values = b""
        self.block = (0, 0, 0)
        self.epoch = self.warp_epoch = self.request = self._begin = 0

    def place(self, name: str, memory: str, shape: Index, dtype: str = "float32") -> int:
        held = memory != "HBM"
        self.places.append(Place(name, memory, dtype, shape, held, 0 if held else None, 1 if held else 0))
        return len(self.places) - 1

    def site(self, line: int, made_of: Sequence[int | Source] | None = ()) -> int:
        sources = made_of and tuple(s if isinstance(s, Source) else Source(s) for s in made_of)
        self.sites.append(Site(line, None if made_of is None else tuple(sources or ())))
        return len(self.sites) - 1

    def read(self, site: int, place: int, by_thread: Mapping[int, Cells]) -> int:
        """The number of the request, of the lowest warp."""
        return self._act(0, site, place, by_thread)

    def write(
        self,
        site: int,
        place: int,
        by_thread: Mapping[int, Cells],
        values: Mapping[int, float] | None = None,
        request: int | None = None,
    ) -> None:
        """`values` by thread, else 0; `request` is that of the read of a copy, of which this is the arrival."""
        self._act(1, site, place, by_thread, values, request)

    def atomic(self, site: int, place: int, by_thread: Mapping[int, Cells]) -> None:
        self._act(2, site, place, by_thread)

    def _act(
        self,
        write: int,
        site: int,
        place: int,
        by_thread: Mapping[int, Cells],
        values: Mapping[int, float] | None = None,
        begun: int | None = None,
    ) -> int:
        warps = sorted({thread // 32 for thread in by_thread})
        first = self.request if begun is None else begun
        for thread, cells in by_thread.items():
            request = first + warps.index(thread // 32)
            for index in cells if isinstance(cells, list) else [cells]:
                cell = int(np.ravel_multi_index(index, self.places[place].shape)) if index else 0
                epochs = (self.epoch, self.warp_epoch)
                self.rows.append((cell, site, request, *epochs, len(self.rows), place, thread, write))
                if write:
                    value = (values or {}).get(thread, 0)
                    self.values += np.array(value, self.places[place].dtype).tobytes()
        self.request += len(warps) if begun is None else 0
        return first

    def barrier(self) -> None:
        self.epoch += 1

    def warp_barrier(self) -> None:
        self.warp_epoch += 1

    def scope(self, place: int, thread: int) -> None:
        """A thread's variable in registers comes into being anew."""
        self.scopes.append((len(self.records), len(self.rows), place, thread))

    def step(self, name: str = "step") -> None:
        rows = (self._begin, len(self.rows))
        self.records.append(StepRecord(name, {}, 1, 0, self.block, rows))
        self._begin = len(self.rows)

    def next_block(self) -> None:
        self.block = (self.block[0] + 1, 0, 0)
        self.epoch = self.warp_epoch = 0

    def trace(self) -> Trace:
        arrays = {p.name: np.zeros(p.shape, p.dtype) for p in self.places if p.memory == "HBM"}
        return Trace(
            name="by_hand",
            source_name="by_hand.cu",
            source_text="",
            launches=(
                Launch(
                    "by_hand",
                    (self.block[0] + 1, 1, 1),
                    self.launch.block,
                    0,
                    tuple(Argument(name, str(a.dtype), a.shape, None, "") for name, a in arrays.items()),
                ),
            ),
            places=tuple(self.places),
            before=arrays,
            later=(),
            outputs={},
            sites=(tuple(self.sites),),
            accesses=np.array(self.rows, ACCESS),
            values=np.frombuffer(self.values, np.uint8),
            scopes=np.array(self.scopes, SCOPE),
            records=tuple(self.records),
            provenance=Provenance("", "", "", "", "", "", ""),
        )
