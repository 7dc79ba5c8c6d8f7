"""How a kernel is declared: its arrays, slots, loops and steps in names, which a run turns into numbers.

A declaration stands beside its ``.cu`` file and is called ``KERNEL``. Sizes are given as the names of parameters
(``"Br"``) or of what `derive` makes of them (``"Tr"``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from kernels.layout import (
    Action,
    ArrayLayout,
    LaunchLayout,
    Layout,
    Loop,
    SlotLayout,
    StepLayout,
)

Params = Mapping[str, int]
Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Parameter:
    """A size or a switch the caller chooses. A switch is 0 or 1 and is given as a flag on the command line."""

    name: str
    default: int
    meaning: str
    switch: bool = False


@dataclass(frozen=True)
class Array:
    """An array in HBM: its shape, of which the first `lead` axes choose a head, cut into tiles of `tile` rows.

    An input has no `fill`. An output starts as `fill` everywhere; with None it starts as a poison that no kernel
    computes, for kernels that write it without reading it.
    """

    name: str
    shape: tuple[str, ...]
    tile: str
    role: Literal["input", "output"] = "input"
    fill: float | None = None
    symbol: str | None = None
    lead: int = 1


@dataclass(frozen=True)
class Slot:
    """A slot of SRAM: a field of the kernel's ``Sram`` struct, of float32, in the struct's order."""

    name: str
    symbol: str
    shape: tuple[str, ...]


@dataclass(frozen=True)
class StepKind:
    """A kind of step: the name its SNAPSHOT gives, the loops around it (outermost first), and what it does.

    `most` names how many of them one block takes at most, where that is fewer than its loops have turns: a block of
    Flash decoding takes only the turns of its own split.
    """

    name: str
    loops: tuple[str, ...]
    actions: tuple[Action, ...]
    most: str | None = None


@dataclass(frozen=True)
class Launch:
    """One launch of a ``__global__`` function template.

    `template` and `arguments` are in the function's order; an argument is an array, a parameter, or a name that
    `Kernel.scalars` makes. `sram` is the struct the function lays over its shared memory, with the same template
    arguments. `loops` maps each loop variable to the name of how often it turns.
    """

    function: str
    template: tuple[str, ...]
    grid: tuple[str, ...]
    arguments: tuple[str, ...]
    slots: tuple[Slot, ...]
    loops: Mapping[str, str]
    steps: tuple[StepKind, ...]
    sram: str = "Sram"


Expected = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Moment:
    """Where in a run a definition is asked for: after the step `name`, with these loop values, in this block."""

    launch: int
    name: str
    loop: Mapping[str, int]
    block: tuple[int, int, int]


@dataclass(frozen=True)
class Truth:
    """What a block holds at one moment by the definition: valid parts of slots, and its windows of HBM.

    NaN in a window stands where the block has written nothing: there HBM is as it was before the launch. `tiles` gives,
    for each array that the step loads or stores, the head and the rows that it moves, each element once.
    """

    sram: Expected
    hbm: Expected
    tiles: Mapping[str, tuple[int, slice]]


def _nothing(params: Params) -> Mapping[str, int]:
    return {}


def _no_scalars(params: Params) -> Mapping[str, np.generic]:
    return {}


@dataclass(frozen=True)
class Kernel:
    """A kernel: one ``.cu`` file and all that running, checking and drawing it takes.

    `derive` names further sizes; `scalars` gives arguments that are no parameters, as NumPy scalars. `make_inputs`
    draws a run's inputs from the parameters and a seed. `outputs` gives the outputs by the definition, in the dtype
    asked for; `truth` what one block holds at a moment; `magnitudes`, for one head and by name or symbol, how large
    the terms are that a number is summed from, which is what its rounding is measured by. `traffic` gives, for each
    array, the elements read and written by the whole run, by formula. `recordings` names the runs whose traces are
    kept, with the parameters they set.
    """

    name: str
    title: str
    source: Path
    parameters: tuple[Parameter, ...]
    arrays: tuple[Array, ...]
    launches: tuple[Launch, ...]
    make_inputs: Callable[[Params, int], Arrays]
    outputs: Callable[[Params, Arrays, npt.DTypeLike], Arrays]
    truth: Callable[[Params, Arrays, Moment, npt.DTypeLike], Truth]
    magnitudes: Callable[[Params, Arrays, int], Mapping[str, float]]
    traffic: Callable[[Params], Mapping[str, tuple[int, int]]]
    recordings: Mapping[str, Params] = field(default_factory=dict)
    derive: Callable[[Params], Mapping[str, int]] = field(default=_nothing)
    scalars: Callable[[Params], Mapping[str, np.generic]] = field(default=_no_scalars)

    @property
    def inputs(self) -> tuple[Array, ...]:
        """The arrays the caller gives."""
        return tuple(array for array in self.arrays if array.role == "input")

    def most_steps(self, params: Params, launch: int) -> int:
        """How many steps one block of a launch takes at most."""
        sizes, declared = {**params, **self.derive(params)}, self.launches[launch]
        return sum(
            sizes[step.most] if step.most else prod(sizes[declared.loops[name]] for name in step.loops)
            for step in declared.steps
        )

    def layout(self, params: Params, threads: int) -> Layout:
        """The declaration with the sizes of one run put in."""
        sizes = {**params, **self.derive(params)}

        def shape(names: tuple[str, ...]) -> tuple[int, ...]:
            return tuple(sizes[name] for name in names)

        def launch_layout(launch: Launch) -> LaunchLayout:
            x, y, z = (*shape(launch.grid), 1, 1)[:3]
            return LaunchLayout(
                function=launch.function,
                grid=(x, y, z),
                threads=threads,
                slots=tuple(SlotLayout(slot.name, slot.symbol, shape(slot.shape)) for slot in launch.slots),
                loops=tuple(Loop(name, sizes[turns]) for name, turns in launch.loops.items()),
                steps=tuple(StepLayout(step.name, step.loops, step.actions) for step in launch.steps),
            )

        return Layout(
            arrays=tuple(
                ArrayLayout(
                    array.name,
                    array.symbol or array.name,
                    shape(array.shape),
                    array.lead,
                    sizes[array.tile],
                    array.role,
                )
                for array in self.arrays
            ),
            launches=tuple(map(launch_layout, self.launches)),
        )
