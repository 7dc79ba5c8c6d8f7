"""The sites of a launch on the CPU: their lines, and by the source's own slices what each write is made of."""

from __future__ import annotations

import shutil
import subprocess
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from kernels.errors import BackendError
from kernels.launch.cpu_library import Logged
from kernels.launch.functions import Source, find_function
from kernels.launch.request import Launch
from kernels.launch.slices import origins_of_lines
from kernels.launch.syntax import split
from kernels.launch.walk import Origin
from kernels.listen import log

_A_LINE = 0x80000000  # in a site's code: a line, not a place in the program
_NEAR = 3  # lines that a statement may go on for: the compiler names another of them than the parser


def lines_of(library: Path, codes: Collection[int], name: str) -> dict[int, int]:
    """The line in the user's file `name` of each return address in a library; 0 where it has none.

    Raises BackendError if there is nothing that can tell.
    """
    wanted = sorted(code for code in set(codes) if code and not code & _A_LINE)
    lines = {code: code & ~_A_LINE if code & _A_LINE else 0 for code in codes}
    if not wanted:
        return lines
    program = next((found for one in ("addr2line", "llvm-addr2line") if (found := shutil.which(one))), None)
    if program is None:
        raise BackendError("the cpu backend needs addr2line to find the lines of a kernel: install binutils")
    asked = "\n".join(f"{code - 1:#x}" for code in wanted)
    told = subprocess.run(
        [program, "-e", str(library), "-i", "-a"], input=asked, capture_output=True, text=True, check=False
    ).stdout
    at = -1
    for line in told.splitlines():
        if line.startswith("0x") and ":" not in line:
            at += 1
            continue
        path, _, number = line.split(" (discriminator")[0].rpartition(":")
        mine = path == name or path.endswith(f"/{name}")
        if mine and number.isdigit() and at < len(wanted) and not lines[wanted[at]]:
            lines[wanted[at]] = int(number)
    return lines


def sites_of(
    logged: Logged, arrays: Sequence[str], library: Path, source: Source, launch: Launch
) -> tuple[log.Site, ...]:
    """The sites that the rows of `logged` refer to. `arrays` are the names of the array arguments, in their order."""
    lines = lines_of(library, set(logged.touches["code"].tolist()), source.name)
    names = _names(logged, arrays, source, launch)
    called: dict[int, frozenset[str]] = defaultdict(frozenset)
    at: dict[int, tuple[int, int]] = {}
    for code, name, kind, _, site in logged.touches.tolist():
        at[site] = lines[code], kind
        called[site] |= names[name] if name < len(names) else frozenset()
    kinds = [at[site][1] for site in range(len(at))]
    places = [(at[site][0], called[site]) for site in range(len(at))]
    slices = origins_of_lines(source)
    readers: dict[int, list[int]] = defaultdict(list)
    for site, kind in enumerate(kinds):
        if kind in (log.Kind.READ, log.Kind.ATOMIC) and places[site][0]:
            readers[places[site][0]].append(site)
    keys: dict[int, list[tuple[str | None, frozenset[Origin]]]] = defaultdict(list)
    for (line, name), origins in slices.items():
        keys[line].append((name, origins))
    made = []
    for site, kind in enumerate(kinds):
        line, mine = places[site]
        if kind not in (log.Kind.WRITE, log.Kind.ATOMIC):
            made.append(log.Site(line, ()))
            continue
        found = _origins(keys, line, mine)
        made.append(log.Site(line, None if found is None else _sources(found, readers, places)))
    return tuple(made)


def _names(logged: Logged, arrays: Sequence[str], source: Source, launch: Launch) -> list[frozenset[str]]:
    """What the source may call each name that a row can have: of an array, every parameter that it was given to."""
    parameters = find_function(source, launch.kernel).parameters
    called: dict[str, set[str]] = defaultdict(set)
    for parameter, argument in zip(parameters, launch.arguments, strict=False):
        if argument.value is None:
            called[argument.name].add(parameter.name)
    names = [frozenset(called[name]) for name in arrays]
    for text, index in logged.variables:
        parts = split(logged.texts[text])
        names.append(frozenset([parts[min(index, len(parts) - 1)].strip()]))
    return names


def _origins(
    keys: Mapping[int, list[tuple[str | None, frozenset[Origin]]]], line: int, called: frozenset[str]
) -> frozenset[Origin] | None:
    """What is stored at a line into something called so; None if the source does not say."""
    for near in _from_near(line):
        named = [origins for name, origins in keys.get(near, ()) if name in called]
        found = named or [origins for name, origins in keys.get(near, ()) if name is None]
        if found:
            return frozenset[Origin]().union(*found)
    return None


def _sources(
    origins: frozenset[Origin],
    readers: Mapping[int, list[int]],
    places: Sequence[tuple[int, frozenset[str]]],
) -> tuple[log.Source, ...]:
    found: dict[int, bool] = {}
    for origin in origins:
        for near in _from_near(origin.line):
            sites = [
                site
                for site in readers.get(near, ())
                if origin.name is None or origin.name in places[site][1]
            ]
            for site in sites:
                found[site] = found.get(site, False) or origin.via_warp
            if sites:
                break
    return tuple(log.Source(site, via_warp) for site, via_warp in sorted(found.items()))


def _from_near(line: int) -> list[int]:
    return [line, *(line + sign * by for by in range(1, _NEAR + 1) for sign in (-1, 1))] if line else []
