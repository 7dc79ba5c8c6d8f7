"""Each kernel's source changed in one place, in every way that must be noticed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kernels.declaration import Kernel
from kernels.job import Job
from kernels.registry import find_kernel

from .planted import job_of


@dataclass(frozen=True)
class Mutant:
    """A source that differs in one place, and where."""

    what: str
    source: str


# Ragged tiles, causal or not, more rows of Q than keys, more splits than tiles. All of a kernel share a compile.
RUNS: dict[str, list[dict[str, Any]]] = {
    "fa1": [{"N": 9, "d": 3, "causal": causal, "batch_heads": 2} for causal in (0, 1)],
    "fa2": [
        {"Nq": Nq, "Nk": Nk, "d": 3, "causal": causal, "batch_heads": 2}
        for Nq, Nk, causal in [(9, 11, 0), (6, 9, 1), (7, 2, 1)]
    ],
    "flash_decoding": [
        {"Nq": Nq, "Nk": Nk, "d": 3, "splits": splits, "causal": causal, "batch_heads": 2}
        for Nq, Nk, splits, causal in [(5, 22, 4, 0), (3, 9, 7, 1), (7, 2, 2, 1)]
    ],
    "online_softmax": [{"N": N, "rows": 2} for N in (10, 3)],
}

GUARDS = {  # of bounds: pattern, and what is left when the guard is gone
    r"min\((\w+), [^;]*?\)(?=;)": r"\1",
    r"min\((\(s \+ 1\) \* tiles), Tc\)": r"\1",
    r"< rows \* d\b": "< Br * d",
    r"< columns \* d\b": "< Bc * d",
    r"< rows \* columns\b": "< Br * columns",
    r"< rows;": "< Br;",
    r"< columns;": "< Bc;",
    r"< width;": "< b;",
}

INFINITIES = {
    r"\w+ == -INFINITY \? 0 : (\w+)": r"\1",
    r"masked \? -INFINITY : ": "",
    r"li\[r\] > 0 \? (Oi\[r\]\[k\] / li\[r\]) : 0": r"\1",
    r"= -INFINITY;": "= 0;",
}


def _attention(keys: str = "Nk", dot: str = "s") -> list[tuple[str, str, str]]:
    """What can go wrong in each kernel of attention: what it is, and the place in the source before and after."""
    store = "O[i * Br * d + x] = Oi[x / d][x % d];"
    return [
        ("the scale applied twice", f"scale * {dot};", f"scale * scale * {dot};"),
        ("a tail tile dropped", f"Tc = ({keys} + Bc - 1) / Bc", f"Tc = {keys} / Bc"),
        ("V's rows permuted", "weight * Vj[c][k]", "weight * Vj[columns - 1 - c][k]"),
        ("m not carried", "mi[r] = m_new;", ""),
        ("an HBM access that escapes the count", "= Q[i * Br * d + x]", "= {bare Q}[i * Br * d + x]"),
        ("two slots' names swapped", "[Qi, Kj, Vj,", "[Qi, Vj, Kj,"),
        ("a NaN in one cell of O", store, store.replace("= Oi", "= x == 4 ? {nan} : Oi")),
        ("O constant", store, "O[i * Br * d + x] = 0.1f;"),
    ]


FAULTS: dict[str, list[tuple[str, str, str]]] = {
    "fa1": [
        *_attention("N"),
        ("l not carried", "li[r] = l_new;", ""),
        ("the rescale factor dropped", "Oi[r][k] *= l_rescaled / l_new;", "Oi[r][k] *= li[r] / l_new;"),
        ("l not rescaled", "li[r] * expf(mi[r] - m_new)", "li[r]"),
        ("a tail tile of Q dropped", "Tr = (N + Br - 1) / Br", "Tr = N / Br"),
        ("a write that escapes the count", "m[i * Br + r] = mi[r]", "{bare m}[i * Br + r] = mi[r]"),
        ("the mask off by one", "j * Bc + c > i * Br + r", "j * Bc + c >= i * Br + r + 2"),
        ("one more tile skipped", "(i + 1) * Br <= j * Bc", "i * Br <= j * Bc"),
        ("a tile above the diagonal not skipped", "(i + 1) * Br <= j * Bc", "false"),
    ],
    "fa2": [
        *_attention(),
        ("the rescale factor dropped", "Oi[r][k] *= rescale;", ""),
        ("l not rescaled", "li[r] *= rescale;", ""),
        ("l not carried", "li[r] += weight;", "li[r] = weight;"),
        ("the division dropped", "Oi[r][k] / li[r]", "Oi[r][k]"),
        ("the mask aligned top-left", "const int offset = Nk - Nq;", "const int offset = 0;"),
        ("a tile above the diagonal not skipped", "if (causal && j * Bc > i * Br + rows - 1 + offset) break;", ""),
    ],
    "flash_decoding": [
        *_attention(dot="dot"),
        ("the rescale factor of a split dropped", "Oi[r][k] *= rescale;", ""),
        ("l of a split not rescaled", "li[r] *= rescale;", ""),
        ("l of a split not carried", "li[r] += weight;", "li[r] = weight;"),
        ("l not carried", "li[r] = rescale * li[r] + rescale_part * ls[r];", "li[r] = rescale_part * ls[r];"),
        ("the rescale factor dropped", "rescale * Oi[r][k] +", "Oi[r][k] +"),
        ("the rescale factor of a part dropped", "+ rescale_part * Os[r][k]", "+ Os[r][k]"),
        ("a split left out", "for (int s = 0; s < splits; s++)", "for (int s = 0; s < splits - 1; s++)"),
        ("a part that escapes the count", "ms[r] = mp[part + r]", "ms[r] = {bare mp}[part + r]"),
        ("the division dropped", "Oi[r][k] / li[r]", "Oi[r][k]"),
        ("two slots' names of the second launch swapped", "[Os, ms, ls,", "[Os, ls, ms,"),
        ("the mask aligned top-left", "const int offset = Nk - Nq;", "const int offset = 0;"),
        ("a tile above the diagonal not skipped", "if (causal && j * Bc > i * Br + rows - 1 + offset) break;", ""),
    ],
    "online_softmax": [
        ("the rescale factor dropped", "d[0] * expf(m[0] - m_new)", "d[0]"),
        ("d not carried", "float d_new = d[0] * expf(m[0] - m_new);", "float d_new = 0;"),
        ("m not carried", "m[0] = m_new;", ""),
        ("a tail tile dropped", "T = (N + b - 1) / b", "T = N / b"),
        ("x permuted", "yi[c] = expf(xi[c]", "yi[c] = expf(xi[width - 1 - c]"),
        ("the division dropped", "/ d[0]", ""),
        ("an HBM access that escapes the count", "y[i * b + c] = yi[c]", "{bare y}[i * b + c] = yi[c]"),
        ("two slots' names swapped", "[xi, yi, m, d]", "[xi, yi, d, m]"),
        ("a NaN in one cell of y", "y[i * b + c] = yi[c]", "y[i * b + c] = c == 1 ? {nan} : yi[c]"),
        ("y constant", "y[i * b + c] = yi[c]", "y[i * b + c] = 0.1f"),
    ],
}  # fmt: skip


def _source(kernel: str) -> str:
    return find_kernel(kernel).source.read_text(encoding="utf-8")


def _everywhere(kernel: str, patterns: dict[str, str]) -> Iterator[Mutant]:
    """One mutant for each place where one of the patterns occurs in the code."""
    source = _source(kernel)
    for pattern, new in patterns.items():
        for found in re.finditer(pattern, source):
            line = source.count("\n", 0, found.start()) + 1
            changed = source[: found.start()] + found.expand(new) + source[found.end() :]
            yield Mutant(f"line {line}: {found[0]} → {found.expand(new) or 'nothing'}", changed)


def races(kernel: str) -> list[Mutant]:
    """Each barrier removed, and each act of one thread done by two."""
    changes = {r"__syncthreads\(\);": "", r"if \(threadIdx.x == 0\)": "if (threadIdx.x < 2)"}
    return list(_everywhere(kernel, changes))


def guards(kernel: str) -> list[Mutant]:
    """Each guard of bounds and each guard of −∞ removed."""
    return [*_everywhere(kernel, GUARDS), *_everywhere(kernel, INFINITIES)]


def faults(kernel: str) -> list[Mutant]:
    """Each fault of the algorithm, the counts and the labels that a reader would not forgive."""
    source = _source(kernel)
    mutants = []
    for what, old, new in FAULTS[kernel]:
        assert source.count(old) >= 1, f"{kernel}: {old!r} is not in its source"
        at = source.index(old)
        # A bare pointer is taken behind the back of the type that counts: it is the first thing in an Hbm.
        new = re.sub(r"\{bare (\w+)\}", r"(*(float* const*)&\1)", new).replace("{nan}", "NAN")
        mutants.append(Mutant(what, source[:at] + new + source[at + len(old) :]))
    return mutants


def planted_at(folder: Path, kernel: str, mutant: Mutant) -> Kernel:
    """The kernel with the mutant's source, in a file of the same name."""
    declared = find_kernel(kernel)
    folder.mkdir()
    path = folder / declared.source.name
    path.write_text(mutant.source, encoding="utf-8")
    return replace(declared, source=path)


def jobs(folder: Path, kernel: str, mutants: list[Mutant], threads: int = 3) -> list[list[Job]]:
    """For each mutant, all the runs that shall notice it."""
    return [
        [job_of(planted, threads=threads, **run) for run in RUNS[kernel]]
        for planted in (
            planted_at(folder / str(number), kernel, mutant) for number, mutant in enumerate(mutants)
        )
    ]
