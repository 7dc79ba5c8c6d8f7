"""What a trace shows, with all sizes known: arrays in HBM, slots in SRAM, and what each step does with them.

A :mod:`kernels.declaration` says the same in names (``Br``, ``d``); a layout is what it comes to in one run, and
travels in the trace file, so that a trace can be read without the kernel's declaration.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Load:
    """A tile of an HBM array is copied into a slot of SRAM."""

    array: str
    slot: str


@dataclass(frozen=True)
class Clear:
    """A carry is set to its starting value, on as many rows as `rows` has valid (None: as were set)."""

    slot: str
    rows: str | None


@dataclass(frozen=True)
class Compute:
    """A slot is filled afresh from slots.

    It has as many valid rows as `rows` has rows, and as many valid columns as `columns` has rows. With `columns` None
    it is a vector, or has all its columns valid.
    """

    slot: str
    rows: str | None
    columns: str | None


@dataclass(frozen=True)
class Update:
    """A carry changes in place, by what the slots `by` hold."""

    slot: str
    by: tuple[str, ...]


@dataclass(frozen=True)
class Store:
    """A slot is copied back to its tile of an HBM array."""

    slot: str
    array: str


Action = Load | Clear | Compute | Update | Store


@dataclass(frozen=True)
class ArrayLayout:
    """One array in HBM.

    `shape` is its whole shape. The first `lead` axes choose a head; the rest is, per head, a matrix of `rows` ×
    `columns` (a vector counts as one column). It is cut into tiles of `tile` rows. `symbol` is its letter in the
    paper.
    """

    name: str
    symbol: str
    shape: tuple[int, ...]
    lead: int
    tile: int
    role: Literal["input", "output"]

    @property
    def heads(self) -> int:
        """How many matrices the leading axes choose from."""
        return math.prod(self.shape[: self.lead])

    @property
    def columns(self) -> int:
        """Columns of one head's matrix; 1 for a vector."""
        return self.shape[-1] if len(self.shape) > self.lead + 1 else 1

    @property
    def rows(self) -> int:
        """Rows of one head's matrix."""
        return math.prod(self.shape[self.lead :]) // self.columns

    @property
    def tiles(self) -> int:
        """How many tiles of `tile` rows cover the matrix, a ragged last one included."""
        return math.ceil(self.rows / self.tile)


@dataclass(frozen=True)
class SlotLayout:
    """One slot of SRAM: its name and shape, and the letter (`symbol`) of what it holds."""

    name: str
    symbol: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Loop:
    """One loop around the steps: its variable and how often it turns."""

    name: str
    turns: int


@dataclass(frozen=True)
class StepLayout:
    """One kind of step: its name, the loops it stands in (outermost first), and what it does, in order."""

    name: str
    loops: tuple[str, ...]
    actions: tuple[Action, ...]


@dataclass(frozen=True)
class LaunchLayout:
    """One launch: the CUDA function, its grid and block, the slots of a block's SRAM, its loops and kinds of step."""

    function: str
    grid: tuple[int, int, int]
    threads: int
    slots: tuple[SlotLayout, ...]
    loops: tuple[Loop, ...]
    steps: tuple[StepLayout, ...]

    def slot(self, name: str) -> SlotLayout:
        """The slot called `name`; KeyError if there is none."""
        return {slot.name: slot for slot in self.slots}[name]

    def step(self, name: str) -> StepLayout:
        """The kind of step called `name`; KeyError if there is none."""
        return {step.name: step for step in self.steps}[name]


@dataclass(frozen=True)
class Layout:
    """All of one run: its arrays in HBM and its launches, in order."""

    arrays: tuple[ArrayLayout, ...]
    launches: tuple[LaunchLayout, ...]

    def array(self, name: str) -> ArrayLayout:
        """The array called `name`; KeyError if there is none."""
        return {array.name: array for array in self.arrays}[name]

    def to_manifest(self) -> dict[str, Any]:
        """The layout as plain JSON values."""
        manifest = asdict(self)
        for launch, plain in zip(self.launches, manifest["launches"], strict=True):
            for step, plain_step in zip(launch.steps, plain["steps"], strict=True):
                for action, plain_action in zip(step.actions, plain_step["actions"], strict=True):
                    plain_action["act"] = type(action).__name__.lower()
        return manifest

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> Layout:
        """The layout that :meth:`to_manifest` wrote; KeyError, TypeError or ValueError if it is anything else."""
        return cls(
            arrays=tuple(ArrayLayout(**{**a, "shape": tuple(a["shape"])}) for a in manifest["arrays"]),
            launches=tuple(_launch(launch) for launch in manifest["launches"]),
        )


_ACTIONS: dict[str, type[Action]] = {
    kind.__name__.lower(): kind for kind in (Load, Clear, Compute, Update, Store)
}


def _action(plain: Mapping[str, Any]) -> Action:
    fields: Any = {key: tuple(value) if isinstance(value, list) else value for key, value in plain.items()}
    return _ACTIONS[fields.pop("act")](**fields)


def _launch(plain: Mapping[str, Any]) -> LaunchLayout:
    x, y, z = plain["grid"]
    return LaunchLayout(
        function=plain["function"],
        grid=(x, y, z),
        threads=plain["threads"],
        slots=tuple(SlotLayout(**{**slot, "shape": tuple(slot["shape"])}) for slot in plain["slots"]),
        loops=tuple(Loop(**loop) for loop in plain["loops"]),
        steps=tuple(
            StepLayout(step["name"], tuple(step["loops"]), tuple(map(_action, step["actions"])))
            for step in plain["steps"]
        ),
    )
