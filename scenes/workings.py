"""A step worked out in its parts: the formula of each part, with the numbers of one row put in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scenes.story import Computed, Event, Picture

Values = npt.NDArray[np.float64]
Slots = Mapping[str, Values]

_MOST_LISTED = 4


@dataclass(frozen=True)
class Number:
    """A number in a line, in the colour of the letter it stands for."""

    value: float
    symbol: str = ""


Line = tuple[str | Number, ...]


@dataclass(frozen=True)
class Part:
    """One part of a step.

    `changes` is the slot that takes its new value in it, if any. It is worked out from one row of the slots `rows` and
    from all of the slots `wholes`. `outcome` is what the numbers come to, worked out in float64 from what the slots
    held before; `held` what the trace holds afterwards, None where no slot holds it.
    """

    changes: str | None
    rows: tuple[str, ...]
    wholes: tuple[str, ...]
    formula: str
    numbers: Line
    outcome: float
    held: float | None = None


@dataclass(frozen=True)
class Working:
    """The parts of one step for the row number `row`, and a line that says what changed in it.

    `rescales` is whether a number that was there already changed.
    """

    row: int
    parts: tuple[Part, ...]
    summary: Line
    rescales: bool

    def by_phase(self, phases: Sequence[Sequence[Event]]) -> list[list[Part]]:
        """The parts of each phase of the step: what is worked out on the way to a change belongs to its phase."""
        found: list[list[Part]] = [[] for _ in phases]
        waiting: list[Part] = []
        for part in self.parts:
            waiting.append(part)
            for n, phase in enumerate(phases):
                if any(event.slot == part.changes for event in phase):
                    found[n] += waiting
                    waiting = []
        return found


Rule = Callable[[Slots, Slots, int], Sequence[Part]]


def work_out(rule: Rule, before: Picture, after: Picture) -> Working | None:
    """The working of the step from one picture to the next; None if no row of it has a finite number.

    The row is the first in which the step's first change moves a number that was there already, else the first that
    has one.
    """
    changed = [event.slot for phase in after.phases for event in phase]
    was, now = _values(before), _values(after)
    finite = np.logical_and.reduce([np.isfinite(now[name][:, 0]) for name in changed])
    first = was.get(changed[0])
    moved = np.zeros_like(finite)
    if first is not None and first.shape == now[changed[0]].shape:
        moved = finite & np.isfinite(first[:, 0]) & (now[changed[0]] != first)[:, 0]
    rows = np.flatnonzero(moved if moved.any() else finite)
    if not len(rows):
        return None
    row = int(rows[0])
    parts = tuple(rule(was, now, row))
    return Working(row, parts, _summary(parts, was, now, row, after), bool(moved.any()))


def _values(picture: Picture) -> dict[str, Values]:
    return {name: content.values.astype(np.float64) for name, content in picture.slots.items() if content}


def _summary(parts: Sequence[Part], was: Slots, now: Slots, row: int, after: Picture) -> Line:
    """What the slots held and hold in one row, of matrices in its first column."""
    single = all(now[part.changes].shape[1] == 1 for part in parts if part.changes)
    computed = {event.slot for phase in after.phases for event in phase if isinstance(event, Computed)}
    line: list[str | Number] = [] if single else [f"row {row}:"]
    for part in parts:
        content = after.slots[part.changes] if part.changes else None
        if part.changes is None or content is None:
            continue
        if len(line) > 1:
            line += ["", ""]
        symbol = content.symbol
        line.append(f"${symbol}$")
        if part.changes in was and part.changes not in computed:
            line += [Number(was[part.changes][row, 0], symbol), "→"]
        else:
            line.append("=")
        line.append(Number(now[part.changes][row, 0], symbol))
    return tuple(line)


def fold_scores(divided: bool) -> Rule:
    """The update of FlashAttention: a tile of scores is folded into m, l and O (FlashAttention-1, algorithm 1).

    With `divided`, O is divided by l in each step, as FlashAttention-1 does; else only at the end.
    """

    def rule(was: Slots, now: Slots, row: int) -> Sequence[Part]:
        scores, V = now["Sij"][row], now["Vj"]
        m, l, O = was["mi"][row, 0], was["li"][row, 0], was["Oi"][row, 0]
        m_new = max(m, scores.max())
        rescale, weights = np.exp(m - m_new), np.exp(scores - m_new)
        l_new = rescale * l + weights.sum()
        taken_in = float(weights @ V[:, 0])
        parts = [
            _larger("mi", "m_i", m, "Sij", "S_(i j)", scores.max(), now["mi"][row, 0]),
            _rescaling("mi", "m_i", m, m_new),
            _weights("Sij", "S", "S_(i j)", "P_(i j)", scores, m_new, "m_i"),
            Part(
                "li",
                ("li",),
                (),
                '$l_i^"new"$ = α $l_i$ + sum of $P_(i j)$',
                (
                    Number(rescale),
                    "·",
                    Number(l, "l"),
                    "+",
                    Number(weights.sum(), "S"),
                    "≈",
                    Number(l_new, "l"),
                ),
                l_new,
                now["li"][row, 0],
            ),
        ]
        if divided:
            O_new = (rescale * l * O + taken_in) / l_new
            formula = '$O_i^"new"$ = ( α $l_i$ $O_i$ + $P_(i j)$ $V_j$ ) / $l_i^"new"$'
            numbers: Line = (
                "(", Number(rescale), "·", Number(l, "l"), "·", Number(O, "O"), "+", Number(taken_in, "V"), ")", "/",
                Number(l_new, "l"), "≈", Number(O_new, "O"),
            )  # fmt: skip
        else:
            O_new = rescale * O + taken_in
            formula = '$O_i^"new"$ = α $O_i$ + $P_(i j)$ $V_j$'
            numbers = (
                Number(rescale), "·", Number(O, "O"), "+", Number(taken_in, "V"), "≈", Number(O_new, "O"),
            )  # fmt: skip
        return [*parts, Part("Oi", ("Oi",), ("Vj",), formula, numbers, O_new, now["Oi"][row, 0])]

    return rule


def fold_partials(was: Slots, now: Slots, row: int) -> Sequence[Part]:
    """The combine step of flash decoding: the partial m, l, O of one split are folded in."""
    m, l, O = was["mi"][row, 0], was["li"][row, 0], was["Oi"][row, 0]
    ms, ls, Os = now["ms"][row, 0], now["ls"][row, 0], now["Os"][row, 0]
    m_new = max(m, ms)
    rescale, rescale_part = np.exp(m - m_new), np.exp(ms - m_new)
    l_new, O_new = rescale * l + rescale_part * ls, rescale * O + rescale_part * Os
    return [
        _larger("mi", "m_i", m, "ms", "m_s", ms, now["mi"][row, 0], of_row=False),
        _rescaling("mi", "m_i", m, m_new),
        Part(
            None,
            ("ms", "mi"),
            (),
            'β = exp( $m_s$ − $m_i^"new"$ )',
            ("exp(", Number(ms, "m"), "−", Number(m_new, "m"), ")", "≈", Number(rescale_part)),
            rescale_part,
        ),
        *(
            Part(
                f"{letter}i",
                (f"{letter}i", f"{letter}s"),
                (),
                f'${letter}_i^"new"$ = α ${letter}_i$ + β ${letter}_s$',
                (
                    Number(rescale), "·", Number(old, letter), "+", Number(rescale_part), "·", Number(part, letter),
                    "≈", Number(new, letter),
                ),
                new,
                now[f"{letter}i"][row, 0],
            )
            for letter, old, part, new in (("l", l, ls, l_new), ("O", O, Os, O_new))
        ),
    ]  # fmt: skip


def divide(was: Slots, now: Slots, row: int) -> Sequence[Part]:
    """The end of FlashAttention-2 and flash decoding: O divided by l, and the log-sum-exp L."""
    m, l, O = was["mi"][row, 0], was["li"][row, 0], was["Oi"][row, 0]
    return [
        Part(
            "Oi",
            ("Oi", "li"),
            (),
            '$O_i^"new"$ = $O_i$ / $l_i$',
            (Number(O, "O"), "/", Number(l, "l"), "≈", Number(O / l, "O")),
            O / l,
            now["Oi"][row, 0],
        ),
        Part(
            "Li",
            ("mi", "li"),
            (),
            "$L_i$ = $m_i$ + log $l_i$",
            (Number(m, "m"), "+", "log", Number(l, "l"), "≈", Number(m + np.log(l), "L")),
            m + np.log(l),
            now["Li"][row, 0],
        ),
    ]


def fold_numbers(was: Slots, now: Slots, row: int) -> Sequence[Part]:
    """The update of online softmax: a tile of numbers is folded into m and d (Milakov and Gimelshein, algorithm 3)."""
    x, m, d = now["xi"][:, 0], was["m"][row, 0], was["d"][row, 0]
    m_new = max(m, x.max())
    rescale, weights = np.exp(m - m_new), np.exp(x - m_new)
    d_new = rescale * d + weights.sum()
    return [
        _larger("m", "m", m, "xi", "x_i", x.max(), now["m"][row, 0], whole=True),
        _rescaling("m", "m", m, m_new),
        _weights("xi", "x", "x_i", "e_i", x, m_new, "m", whole=True),
        Part(
            "d",
            ("d",),
            (),
            '$d^"new"$ = α $d$ + sum of $e_i$',
            (Number(rescale), "·", Number(d, "d"), "+", Number(weights.sum(), "x"), "≈", Number(d_new, "d")),
            d_new,
            now["d"][row, 0],
        ),
    ]


def softmax_of_tile(was: Slots, now: Slots, row: int) -> Sequence[Part]:
    """The second pass of online softmax: a number's share, now that m and d of the whole row are known."""
    x, m, d = now["xi"][row, 0], now["m"][0, 0], now["d"][0, 0]
    y = np.exp(x - m) / d
    return [
        Part(
            "yi",
            ("xi",),
            ("m", "d"),
            "$y_i$ = exp( $x_i$ − $m$ ) / $d$",
            ("exp(", Number(x, "x"), "−", Number(m, "m"), ")", "/", Number(d, "d"), "≈", Number(y, "y")),
            y,
            now["yi"][row, 0],
        )
    ]


def _larger(
    slot: str, name: str, m: float, other: str, other_name: str, most: float, held: float,
    of_row: bool = True, whole: bool = False,
) -> Part:  # fmt: skip
    symbol = other_name[0]
    return Part(
        slot,
        (slot,) if whole else (slot, other),
        (other,) if whole else (),
        f'${name}^"new"$ = max( ${name}$ , ' + ("max of " if of_row else "") + f"${other_name}$ )",
        ("max(", Number(m, "m"), ",", Number(most, symbol), ")", "=", Number(max(m, most), "m")),
        max(m, most),
        held,
    )


def _rescaling(slot: str, name: str, m: float, m_new: float) -> Part:
    factor = float(np.exp(m - m_new))
    numbers: Line = ("exp(", Number(m, "m"), "−", Number(m_new, "m"), ")", "≈", Number(factor))
    return Part(None, (slot,), (), f'α = exp( ${name}$ − ${name}^"new"$ )', numbers, factor)


def _weights(
    slot: str,
    symbol: str,
    name: str,
    result: str,
    values: Values,
    m_new: float,
    m_name: str,
    whole: bool = False,
) -> Part:
    weights = np.exp(values - m_new)
    numbers: list[str | Number] = []
    for row in (values, weights):
        for n, value in enumerate(row[:_MOST_LISTED]):
            numbers += ([","] if n else []) + [Number(float(value), symbol)]
        numbers += [",", "…"] if len(row) > _MOST_LISTED else []
        numbers += ["→"] if row is values else []
    return Part(
        None,
        () if whole else (slot,),
        (slot,) if whole else (),
        f'${result}$ = exp( ${name}$ − ${m_name}^"new"$ )',
        tuple(numbers),
        float(weights.sum()),
    )
