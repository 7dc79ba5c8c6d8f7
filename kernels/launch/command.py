"""The commands that take a ``.cu`` file: ``record``, ``run``, ``verify`` and ``check``."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console

from kernels.errors import ParameterError
from kernels.launch import show, truth
from kernels.launch.check import check
from kernels.launch.machines import BACKENDS, find_backend
from kernels.launch.record import record
from kernels.launch.request import Request
from kernels.launch.settle import Call, kernel_name, settle_words
from kernels.launch.source import Source, find_function, read_source
from kernels.launch.values import WORDS_HELP, Array

_console = Console(highlight=False, soft_wrap=True)

_THEN_HELP = """\
Several launches: --then begins another one. What it leaves out (kernel, grid, block, shared, arguments) is as in the
launch before; x=y gives its parameter x the array that y was there.

\b
  record sum.cu --kernel partial --grid 4 --block 32 x=normal:128 y=zeros:4 n=128
         --then --kernel total --grid 1 x=y y=zeros:1 n=4 -o sum.trace
"""


@dataclass(frozen=True)
class _Asked:
    """What a command line asks for: the launches, and how to run and record them."""

    source: Source
    calls: tuple[Call, ...]
    settings: Mapping[str, Any]

    def request(self) -> Request:
        return settle_words(
            self.source,
            self.calls,
            seed=_seed(self.settings["seed"]),
            blocks=_range("blocks", self.settings.get("blocks")),
            steps=_range("steps", self.settings.get("steps")),
        )


def record_command(word: str) -> click.Command:
    """`record FILE.cu`: run the launches traced and write the trace."""
    return _Launches(
        word,
        act=_record,
        more=[_OUTPUT, *_WINDOW],
        help=f"Run {word} as it stands, traced, and write the trace.",
    )


def run_command(word: str) -> click.Command:
    """`run FILE.cu`: run the launches untraced; print what they wrote, or save it."""
    return _Launches(
        word,
        act=_run,
        more=[
            click.Option(
                ["-o", "--output"],
                type=click.Path(path_type=Path),
                metavar="FILE.npz",
                help="write the arrays there",
            )
        ],
        help=f"Run {word} as it stands, untraced, and print or save what it wrote.",
    )


def verify_command(word: str) -> click.Command:
    """`verify FILE.cu`: run the launches traced and hold what they wrote against a truth."""
    return _Launches(
        word,
        act=_verify,
        more=[TRUTH, *_WINDOW],
        help=f"Run {word} and hold what it wrote against a truth. {truth.HELP} Exits 1 on a finding.",
    )


def check_command(word: str) -> click.Command:
    """`check FILE.cu`: run the launches traced everywhere they can run, and look for faults."""
    return _Launches(
        word,
        act=_check,
        more=_WINDOW,
        backend=False,
        help=f"Run {word} on the CPU, and on the GPU if there is one, and report races between two barriers, reads of "
        "what was never written, and accesses outside an array. Exits 1 on a finding, 2 if it could run nowhere.",
    )


_LAUNCH = [
    click.Option(
        ["--kernel"],
        metavar="NAME",
        help="which function: gemm, 'gemm<16>'; the file's one kernel if left out",
    ),
    click.Option(["--grid"], metavar="X[,Y[,Z]]", help="blocks of the launch"),
    click.Option(["--block"], metavar="X[,Y[,Z]]", help="threads of a block"),
    click.Option(["--shared"], metavar="BYTES", help="dynamic shared memory of a block  [default: 0]"),
]
_OF_LAUNCH = ("kernel", "grid", "block", "shared", "words")
_OUTPUT = click.Option(
    ["-o", "--output"], type=click.Path(path_type=Path), metavar="FILE", help="the trace to write"
)
_WINDOW = [
    click.Option(["--blocks"], metavar="FIRST:END", help="record these blocks of each launch alone, from 0"),
    click.Option(["--steps"], metavar="FIRST:END", help="record these steps of each block alone, from 0"),
]
_SEED = click.Option(
    ["--seed"], default="0", metavar="N", show_default=True, help="of the random numbers drawn"
)
_BACKEND = click.Option(
    ["--backend"], type=click.Choice(BACKENDS), default="auto", show_default=True, help="where to run"
)
TRUTH = click.Option(["--truth"], metavar="FILE.py[:FUNCTION]", help="the truth")


class _Launches(click.Command):
    """A command for one file, whose words and options describe launches, one after each ``--then``."""

    def __init__(
        self,
        file: str,
        *,
        act: Callable[[_Asked], int | None],
        more: Sequence[click.Option],
        backend: bool = True,
        help: str,
    ) -> None:
        options = [*_LAUNCH, _SEED, *([_BACKEND] if backend else []), *more]
        words = click.Argument(["words"], nargs=-1, metavar="[NAME=VALUE]...")
        super().__init__(file, params=[words, *options], help=f"{help}\n\n{WORDS_HELP}\n{_THEN_HELP}")
        self.callback = self._called
        self._act = act
        self._launches: list[dict[str, Any]] = []

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse each launch by itself; an option of the whole may stand in any of them."""
        first, *others = _split(args)
        left = super().parse_args(ctx, first)
        self._launches = [_launch_of(ctx.params)]
        for section in others:
            again = click.Context(self, info_name=ctx.info_name, parent=ctx.parent)
            super().parse_args(again, section)
            given = _given(again)
            same = {key: value for key, value in self._launches[-1].items() if key not in given}
            self._launches.append({**_launch_of(again.params), **same, "words": again.params["words"]})
            ctx.params.update({key: value for key, value in given.items() if key not in _OF_LAUNCH})
        return left

    def _called(self, **settings: Any) -> int | None:
        file = str(self.name)
        source = read_source(Path(file))
        calls = tuple(_call(launch, source) for launch in self._launches)
        return self._act(_Asked(source, calls, settings))


def _split(args: Sequence[str]) -> list[list[str]]:
    sections: list[list[str]] = [[]]
    for arg in args:
        if arg == "--then":
            sections.append([])
        else:
            sections[-1].append(arg)
    return sections


def _launch_of(params: Mapping[str, Any]) -> dict[str, Any]:
    return {key: params[key] for key in _OF_LAUNCH}


def _given(context: click.Context) -> dict[str, Any]:
    """The options that were on the command line."""
    there = click.core.ParameterSource.COMMANDLINE
    return {key: value for key, value in context.params.items() if context.get_parameter_source(key) == there}


def _call(launch: Mapping[str, Any], source: Source) -> Call:
    name = kernel_name(source, launch["kernel"])
    find_function(source, name)
    for key, what in (("grid", "its blocks"), ("block", "the threads of a block")):
        if launch[key] is None:
            raise ParameterError(f"{name} needs {what}: add --{key} X[,Y[,Z]], for example --{key} 4,4")
    shared = launch["shared"]
    return Call(
        name, launch["grid"], launch["block"], 0 if shared is None else shared, _words(launch["words"])
    )


def _words(words: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name or not value:
            raise ParameterError(f"{word!r} is no argument: must be NAME=VALUE, for example n=64")
        if name in found:
            raise ParameterError(f"{name} is given twice: {name}={found[name]} and {word}")
        found[name] = value
    return found


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise ParameterError(f"seed={text}: must be a whole number of at least 0")
    return int(text)


def _range(name: str, text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    first, colon, end = text.partition(":")
    if not colon:
        raise ParameterError(f"{name}={text}: must be FIRST:END, for example 0:100")
    if not (first.isdecimal() and end.isdecimal()):
        raise ParameterError(f"{name}={text}: must be FIRST:END, two whole numbers of at least 0")
    return int(first), int(end)


def _check_output(output: Path) -> None:
    if output.is_dir() or not output.parent.is_dir():
        raise ParameterError(f"{output} cannot be written: it must name a file in a folder that exists")


def _record(asked: _Asked) -> None:
    output: Path | None = asked.settings["output"]
    if output is None:
        raise ParameterError("record needs a file to write the trace to: add -o FILE")
    _check_output(output)
    request = asked.request()
    trace, _ = record(request, find_backend(asked.settings["backend"]))
    trace.save(output)
    blocks = len({(step.launch, step.block) for step in trace.records})
    where = f"{trace.provenance.device} ({trace.provenance.backend})"
    _console.print(
        f"{output}: {len(trace.records)} steps of {blocks} blocks, recorded on {where}", markup=False
    )


def _run(asked: _Asked) -> None:
    output: Path | None = asked.settings["output"]
    if output is not None:
        if output.suffix != ".npz":
            raise ParameterError(f"{output} must be named FILE.npz, a file of NumPy arrays")
        _check_output(output)
    request = asked.request()
    backend = find_backend(asked.settings["backend"])
    after = backend.run(request)
    written = {name: after[name] for name in _written(request)}
    if output is not None:
        _save(output, written)
    machine = backend.machine()
    kept = f"; written to {output}" if output else ""
    _console.print(f"ran on {machine.device} ({backend.name}){kept}", markup=False)
    for name, values in written.items():
        _console.print(show.array_line(name, values), markup=False)


def _written(request: Request) -> list[str]:
    """The arrays that a kernel takes without const, in the order of the arguments."""
    names = []
    for launch in request.launches:
        function = find_function(request.source, launch.kernel)
        for parameter, argument in zip(function.parameters, launch.arguments, strict=True):
            if argument.value is None and not parameter.const and argument.name not in names:
                names.append(argument.name)
    return names


def _save(output: Path, arrays: Mapping[str, Array]) -> None:
    """Write a file of arrays, wholly or not at all."""
    handle, scratch = tempfile.mkstemp(dir=output.parent, prefix=f".{output.name}.", suffix=".npz")
    os.close(handle)
    try:
        np.savez(scratch, allow_pickle=False, **dict(arrays))
        os.chmod(scratch, 0o666 & ~_umask())
        os.replace(scratch, output)
    except BaseException:
        Path(scratch).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _verify(asked: _Asked) -> int:
    function = truth.find_truth(asked.settings["truth"], asked.source)
    trace, _ = record(asked.request(), find_backend(asked.settings["backend"]))
    report = truth.verify(trace, function)
    show.print_report(_console, trace, report)
    return 0 if report.ok else 1


def _check(asked: _Asked) -> int:
    request = asked.request()
    outcomes = check(request)
    for name, outcome in outcomes.items():
        show.print_outcome(_console, name, outcome)
    if any(outcome.findings for outcome in outcomes.values()):
        return 1
    return 2 if all(outcome.missing for outcome in outcomes.values()) else 0
