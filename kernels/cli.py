"""The command line: ``python -m kernels record | run | show | verify | check | bench | list``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console

import kernels
from kernels import bench as measure
from kernels import report
from kernels.backend import BACKENDS
from kernels.check import check
from kernels.declaration import Kernel
from kernels.errors import KernelsError, ParameterError
from kernels.launch import command as plain
from kernels.launch import show as plain_show
from kernels.launch import truth as plain_truth
from kernels.registry import find_kernel, kernel_names
from kernels.trace.model import Trace as PlainTrace

_console = Console(highlight=False, soft_wrap=True)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; any trouble of the user's is one line on stderr and exit status 2."""
    run_command(_group, arguments, "kernels")


def run_command(command: click.Command, arguments: list[str] | None, program: str) -> None:
    """Run a Click command so that every error is one line on stderr and exit status 2."""
    try:
        status = command.main(arguments, prog_name=f"python -m {program}", standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("stopped", err=True)
        sys.exit(130)
    except (click.ClickException, KernelsError) as error:
        text = error.format_message() if isinstance(error, click.ClickException) else str(error)
        asked = isinstance(error, click.exceptions.NoArgsIsHelpError)
        click.echo(text if asked else f"error: {' '.join(text.split())}", err=True)
        sys.exit(2)
    except OSError as error:
        click.echo(f"error: {error.filename or 'output'}: {error.strerror}", err=True)
        sys.exit(2)
    sys.exit(status if isinstance(status, int) else 0)


def _number(text: str | None) -> Any:
    """A whole number if the text is one, else the text itself, for the job to refuse with its value."""
    try:
        return None if text is None else int(text)
    except ValueError:
        return text


class _PerKernel(click.Group):
    """A group with a command for each kernel, with options from its declaration.

    `plain` takes a ``.cu`` file, `other` any other word.
    """

    def __init__(
        self,
        *,
        act: Callable[..., int | None],
        options: list[click.Parameter],
        plain: Callable[[str], click.Command],
        other: Callable[[str], click.Command | None] = lambda word: None,
        **settings: Any,
    ) -> None:
        super().__init__(subcommand_metavar=settings.pop("metavar"), **settings)
        self._act = act
        self._more = options
        self._plain = plain
        self._other = other

    def list_commands(self, context: click.Context) -> list[str]:
        """The kernels by name."""
        return list(kernel_names())

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """The command for one kernel, or for another word."""
        if name.endswith(".cu"):
            return self._plain(name)
        if name not in kernel_names() and not name.endswith(".py") and (command := self._other(name)):
            return command
        kernel = find_kernel(name)

        def act(**values: Any) -> int | None:
            params = {p.name: values.pop(p.name) for p in kernel.parameters}
            shared = {key: values.pop(key) for key in ("seed", "backend", "threads")}
            shared["seed"], shared["threads"] = _number(shared["seed"]), _number(shared["threads"])
            params = {
                key: value if isinstance(value, bool) else _number(value) for key, value in params.items()
            }
            return self._act(name, {**params, **shared}, **values)

        return click.Command(
            name,
            callback=act,
            params=[*_options(kernel), *self._more],
            help=f"{kernel.title} ({kernel.source.name}).",
        )


def _options(kernel: Kernel) -> list[click.Parameter]:
    sizes: list[click.Parameter] = [
        click.Option(
            [f"--{p.name.replace('_', '-')}", p.name], is_flag=True, default=bool(p.default), help=p.meaning
        )
        if p.switch
        else click.Option(
            [f"--{p.name.replace('_', '-')}", p.name],
            default=str(p.default),
            metavar="N",
            show_default=True,
            help=p.meaning,
        )
        for p in kernel.parameters
    ]
    return [
        *sizes,
        click.Option(["--seed"], default="0", metavar="N", show_default=True, help="of the inputs drawn"),
        click.Option(["--threads"], metavar="N", help="threads per block"),
        click.Option(
            ["--backend"], type=click.Choice(BACKENDS), default="auto", show_default=True, help="where to run"
        ),
    ]


@click.group(help="Run attention kernels, record every step of a run, and check it against the definition.")
def _group() -> None:
    pass


def _range(name: str, text: str | None) -> tuple[Any, Any] | None:
    """The two ends of FIRST:END, for the run to refuse with their values if they are no whole numbers."""
    if text is None:
        return None
    first, colon, end = text.partition(":")
    if not colon:
        raise ParameterError(f"{name}={text}: must be FIRST:END, for example 0:100")
    return _number(first), _number(end)


def _record(
    kernel: str, settings: Mapping[str, Any], output: Path, blocks: str | None, steps: str | None
) -> None:
    if output.is_dir() or not output.parent.is_dir():
        raise ParameterError(f"{output} cannot be written: it must name a file in a folder that exists")
    trace = kernels.record(
        kernel, None, blocks=_range("blocks", blocks), steps=_range("steps", steps), **settings
    )
    trace.save(output)
    where = f"{trace.provenance.device} ({trace.provenance.backend})"
    _console.print(
        f"{output}: {len(trace.steps)} steps of {len(trace.blocks)} blocks, recorded on {where}", markup=False
    )


_OUTPUT = click.Option(
    ["-o", "--output"],
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="the trace to write",
)
_WINDOW = [
    click.Option(["--blocks"], metavar="FIRST:END", help="record these blocks of each launch alone, from 0"),
    click.Option(["--steps"], metavar="FIRST:END", help="record these steps of each block alone, from 0"),
]
_group.add_command(
    _PerKernel(
        name="record",
        act=_record,
        options=[_OUTPUT, *_WINDOW],
        plain=plain.record_command,
        metavar="FILE.cu | KERNEL [OPTIONS]",
        help="Run a kernel with tracing and write the trace. `record FILE.cu --help` says how to run any CUDA file. "
        "KERNEL may be the .py file of a declaration of your own.",
    )
)


def _verify_run(kernel: str, settings: Mapping[str, Any]) -> int:
    return _verified(kernels.record(kernel, None, **settings), find_kernel(kernel))


def _verified(trace: kernels.Trace, kernel: Kernel | None) -> int:
    found = kernels.verify(trace, kernel)
    report.print_report(_console, trace, found)
    return 0 if found.ok else 1


def _check(kernel: str, settings: Mapping[str, Any]) -> int:
    given = dict(settings)
    if given.pop("backend") == "cupy":
        raise ParameterError("check runs on the CPU and, where there is one, on the GPU: leave --backend out")
    outcomes = check(kernel, **given)
    for tool, outcome in outcomes.items():
        _console.print(f"{tool:10} {outcome}", markup=False)
    if any(outcome.findings for outcome in outcomes.values()):
        return 1
    return 2 if all(outcome.missing for outcome in outcomes.values()) else 0


_group.add_command(
    _PerKernel(
        name="check",
        act=_check,
        options=[],
        plain=plain.check_command,
        metavar="FILE.cu | KERNEL [OPTIONS]",
        help="Look for races and the like: in the accesses of any CUDA file (`check FILE.cu --help`), or by sanitizers "
        "over a kernel, one line for each. Exits 1 on a finding, 2 if none of them could run.",
    )
)


class _Run(click.Group):
    """A group with a command for any CUDA file."""

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """The command for one file."""
        if not name.endswith(".cu"):
            raise ParameterError(f"{name} is no CUDA file: run takes a file named NAME.cu")
        return plain.run_command(name)


_group.add_command(
    _Run(
        name="run",
        subcommand_metavar="FILE.cu [OPTIONS]",
        help="Run any CUDA file without tracing, and print or save what it wrote. `run FILE.cu --help` says how.",
    )
)


def _verify_trace(word: str) -> click.Command:
    def act(truth: str | None) -> int:
        trace = open_trace(word)
        if not isinstance(trace, PlainTrace):
            if truth is not None:
                raise ParameterError(f"{word} is of a kernel that has its definition: leave --truth out")
            return _verified(trace, None)
        source = plain_truth.source_beside(trace, Path(word).parent, Path())
        found = plain_truth.verify(trace, plain_truth.find_truth(truth, source))
        plain_show.print_report(_console, trace, found)
        return 0 if found.ok else 1

    return click.Command(
        word, callback=act, params=[plain.TRUTH], help=f"The trace {word}. {plain_truth.HELP}"
    )


def open_trace(word: str) -> kernels.Trace | PlainTrace:
    """The recording called `word`, or the trace in the file of that path; TraceError if there is neither."""
    if word in kernels.recordings() and not Path(word).is_file():
        return kernels.recorded(word)
    trace: kernels.Trace | PlainTrace = kernels.load(word)
    return trace


_group.add_command(
    _PerKernel(
        name="verify",
        act=_verify_run,
        options=[],
        plain=plain.verify_command,
        other=_verify_trace,
        metavar="TRACE | FILE.cu | KERNEL [OPTIONS]",
        help="Check a trace, or a fresh run of a kernel, against the float64 definition; that of any CUDA file is a "
        "function, --truth FILE.py[:NAME] (`verify FILE.cu --help`). Exits 1 on a finding.",
    )
)


@_group.command(help="How fast the kernels are on a GPU, beside what a user would pick instead.")
@click.option("--runs", default=50, metavar="N", show_default=True, help="of each, after some to warm up")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="write JSON there too")
def bench(runs: int, output: Path | None) -> None:
    """Print, and keep, what `kernels.bench` measures."""
    results = measure.bench(runs)
    for what, says in measure.rows(results):
        _console.print(f"{what:52} {says}", markup=False)
    if output:
        output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


@_group.command(help="The steps of a trace, its snapshots, its traffic, and where it ran.")
@click.argument("trace")
@click.option(
    "--block", default=0, metavar="N", show_default=True, help="whose steps to show, in the order recorded"
)
@click.option(
    "--access", is_flag=True, help="what each line of a CUDA file asked of the memories, and races, instead"
)
def show(trace: str, block: int, access: bool) -> None:
    """Print a trace."""
    opened = open_trace(trace)
    if isinstance(opened, PlainTrace) and access:
        plain_show.print_access(_console, opened)
    elif isinstance(opened, PlainTrace):
        plain_show.print_trace(_console, opened, block)
    elif access:
        raise ParameterError(f"{trace} is of version 2, which keeps no accesses: record its CUDA file")
    else:
        report.print_trace(_console, opened, block)


@_group.command("list", help="The kernels with their parameters and steps, and the recordings.")
def list_() -> None:
    """Print what there is."""
    report.print_kernels(_console, [find_kernel(name) for name in kernel_names()])
    report.print_recordings(_console, {name: kernels.recorded(name) for name in kernels.recordings()})
