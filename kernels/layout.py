"""What a trace shows, with all sizes known: arrays in HBM, slots in SRAM, and what each step does with them.

A `kernels.declaration` says the same in names (``Br``, ``d``); a layout is what it comes to in one run, and
travels in the trace file, so that a trace can be read without the kernel's declaration.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
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
        """The layout that `to_manifest` wrote; KeyError, TypeError or ValueError if it is anything else."""
        arrays = tuple(map(_array, manifest["arrays"]))
        names = as_names(array.name for array in arrays)
        return cls(arrays, tuple(_launch(launch, names) for launch in manifest["launches"]))


_MOST = 2**31 - 1  # of anything counted here: a kernel's indices are int


def as_count(value: Any, least: int = 1, most: int = _MOST) -> int:
    """`value`, if it is a whole number from `least` to `most`; ValueError otherwise."""
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return value
    raise ValueError(f"{value!r} is no whole number from {least} to {most}")


def as_text(value: Any) -> str:
    """`value`, if it is a text that can be printed; ValueError otherwise."""
    if isinstance(value, str) and value.isprintable():
        return value
    raise ValueError(f"{value!r} is no printable text")


def as_names(values: Iterable[Any]) -> frozenset[str]:
    """The names in `values`, none of which may occur twice; ValueError otherwise."""
    names = [as_text(value) for value in values]
    if len(set(names)) != len(names):
        raise ValueError(f"of {names} one occurs twice")
    return frozenset(names)


def _shape(plain: Any) -> tuple[int, ...]:
    if not plain:
        raise ValueError("a shape is empty")
    return tuple(map(as_count, plain))


def _array(plain: Mapping[str, Any]) -> ArrayLayout:
    shape = _shape(plain["shape"])
    if plain["role"] not in ("input", "output"):
        raise ValueError(f"{plain['role']!r} is no role")
    return ArrayLayout(
        name=as_text(plain["name"]),
        symbol=as_text(plain["symbol"]),
        shape=shape,
        lead=as_count(plain["lead"], 1, len(shape) - 1),
        tile=as_count(plain["tile"]),
        role=plain["role"],
    )


_ACTIONS: dict[str, type[Action]] = {
    kind.__name__.lower(): kind for kind in (Load, Clear, Compute, Update, Store)
}


def _action(plain: Mapping[str, Any], arrays: frozenset[str], slots: frozenset[str]) -> Action:
    fields: Any = {key: tuple(value) if isinstance(value, list) else value for key, value in plain.items()}
    action = _ACTIONS[fields.pop("act")](**fields)
    for key, value in fields.items():
        known = arrays if key == "array" else slots
        named = value if key == "by" else (value,)
        if not all(name in known or (name is None and key in ("rows", "columns")) for name in named):
            raise ValueError(f"an action names {value!r}, which there is not")
    return action


def _launch(plain: Mapping[str, Any], arrays: frozenset[str]) -> LaunchLayout:
    x, y, z = map(as_count, plain["grid"])
    slots = tuple(
        SlotLayout(as_text(slot["name"]), as_text(slot["symbol"]), _shape(slot["shape"]))
        for slot in plain["slots"]
    )
    loops = tuple(Loop(as_text(loop["name"]), as_count(loop["turns"])) for loop in plain["loops"])
    slot_names = as_names(slot.name for slot in slots)
    loop_names = as_names(loop.name for loop in loops)
    steps = tuple(
        StepLayout(
            as_text(step["name"]),
            tuple(step["loops"]),
            tuple(_action(action, arrays, slot_names) for action in step["actions"]),
        )
        for step in plain["steps"]
    )
    as_names(step.name for step in steps)
    if any(not loop_names.issuperset(step.loops) for step in steps):
        raise ValueError("a step stands in a loop that there is not")
    return LaunchLayout(
        as_text(plain["function"]), (x, y, z), as_count(plain["threads"]), slots, loops, steps
    )
