"""A trace: the ordered steps of one run, with what SRAM and HBM held after each and what crossed between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kernels.layout import LaunchLayout, Layout, StepLayout

Array = npt.NDArray[np.float32]
Block = tuple[int, int, int]


@dataclass(frozen=True)
class Provenance:
    """Where and when a run was made.

    `source_hash` is the SHA-256 of the kernel's source without comments; `recorded_at` is UTC, ISO 8601.
    """

    backend: str
    device: str
    driver: str
    runtime: str
    compiler: str
    source_hash: str
    recorded_at: str


@dataclass(frozen=True)
class Window:
    """The part of a run that a trace holds: some blocks of each launch, and of each of them some steps.

    Half-open ranges of their numbers, from 0; None is all of them. Blocks are counted with x fastest, z slowest.
    """

    blocks: tuple[int, int] | None = None
    steps: tuple[int, int] | None = None

    def __str__(self) -> str:
        parts = {"blocks": self.blocks, "steps": self.steps}
        return " and ".join(f"{name} {part[0]}:{part[1]}" for name, part in parts.items() if part)


@dataclass(frozen=True)
class Traffic:
    """Elements of one array that crossed HBM in one step.

    `rows` and `columns` are the half-open ranges touched, in the matrix of the head number `head`.
    """

    reads: int
    writes: int
    rows: tuple[int, int]
    columns: tuple[int, int]
    head: int


@dataclass(frozen=True)
class TotalTraffic:
    """Elements and bytes of one array that crossed HBM in a whole run, over all blocks.

    A transfer is one array moved in one direction in one step of one block.
    """

    reads: int
    writes: int
    transfers: int

    @property
    def bytes_read(self) -> int:
        """Bytes fetched from HBM (float32)."""
        return 4 * self.reads

    @property
    def bytes_written(self) -> int:
        """Bytes stored to HBM (float32)."""
        return 4 * self.writes


@dataclass(frozen=True)
class Patch:
    """A box of an HBM array as one block wrote it in one step: its first row and column, and what it then held."""

    row: int
    column: int
    values: Array


class Windows(Mapping[str, Array]):
    """One block's window of each HBM array the kernel writes: its head's matrix with this block's own writes so far.

    An array of the mapping is built when it is asked for.
    """

    def __init__(self, start: Mapping[str, Array], patches: Mapping[str, tuple[Patch, ...]]) -> None:
        self.start = start
        self.patches = patches

    def __getitem__(self, name: str) -> Array:
        start = self.start[name]
        window = start.reshape(-1, start.shape[-1] if start.ndim > 1 else 1).copy()
        for patch in self.patches.get(name, ()):
            rows, columns = patch.values.shape
            window[patch.row : patch.row + rows, patch.column : patch.column + columns] = patch.values
        window.flags.writeable = False
        return window.reshape(start.shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self.start)

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True)
class Step:
    """One step of one block.

    `index` counts the steps of the trace. `loop` holds the values of the loops the step stands in, outermost first.
    `sram` holds each slot's whole content after the step, None while nothing was ever put there; `valid` how many of
    its rows and columns are part of the problem (the rest is padding or stale), zeros while it is empty. `hbm` holds
    this block's window of each array the kernel writes. `traffic` has an entry for each array touched.
    """

    index: int
    name: str
    loop: Mapping[str, int]
    block: Block
    launch: int
    kind: StepLayout
    sram: Mapping[str, Array | None]
    valid: Mapping[str, tuple[int, ...]]
    hbm: Windows
    traffic: Mapping[str, Traffic]

    def held(self, slot: str) -> Array | None:
        """The valid part of what `slot` holds after this step; None while it is empty."""
        content = self.sram[slot]
        return None if content is None else content[tuple(slice(n) for n in self.valid[slot])]


@dataclass(frozen=True)
class Trace:
    """One run of one kernel, step by step.

    `inputs` and `outputs` are whole arrays, float32, in the shapes of `layout`. `steps` are in the order launch, block,
    time; blocks of a GPU run side by side, so between blocks there is no other order. With a `window` they are those of
    its blocks and steps alone, and so is the traffic.
    """

    kernel: str
    title: str
    params: Mapping[str, int | bool]
    layout: Layout
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    steps: tuple[Step, ...]
    provenance: Provenance
    window: Window | None = None

    @cached_property
    def traffic(self) -> Mapping[str, TotalTraffic]:
        """The sums over all steps, for each array in HBM."""
        return {array.name: total_traffic(self.steps, array.name) for array in self.layout.arrays}

    @cached_property
    def blocks(self) -> tuple[tuple[int, Block], ...]:
        """Each (launch, block) that left steps, in order."""
        return tuple(dict.fromkeys((step.launch, step.block) for step in self.steps))

    def steps_of(self, block: Block, launch: int = 0) -> tuple[Step, ...]:
        """The steps of one block of one launch, in time order; empty if it left none."""
        return tuple(step for step in self.steps if step.block == block and step.launch == launch)

    def launch_of(self, step: Step) -> LaunchLayout:
        """The layout of the launch `step` belongs to."""
        return self.layout.launches[step.launch]

    def save(self, path: str | Path) -> None:
        """Write the trace to `path`, wholly or not at all.

        Raises TraceError if the file cannot be written.
        """
        from kernels.trace_file import save

        save(self, Path(path))


def total_traffic(steps: tuple[Step, ...], name: str) -> TotalTraffic:
    """What of the array `name` crossed HBM over `steps`."""
    touched = [step.traffic[name] for step in steps if name in step.traffic]
    return TotalTraffic(
        reads=sum(traffic.reads for traffic in touched),
        writes=sum(traffic.writes for traffic in touched),
        transfers=sum((traffic.reads > 0) + (traffic.writes > 0) for traffic in touched),
    )
