"""The log as ``logger.cuh`` leaves it in the GPU's memory, read into the rows of `kernels.listen.log`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.listen.log import HOLD_INFO, ROW, SNAPSHOT_INFO, BlockLog, Kind, Site
from kernels.listen.rewrite import COMMIT, COPY

MOST_GLOBALS, MOST_STRAYS = 32, 64
REQUEST = np.dtype(
    [
        ("base", "u8"),
        ("payload", "u4"),
        ("mask", "u4"),
        ("site", "u4"),
        ("warp", "u2"),
        ("kind", "u1"),
        ("space", "u1"),
        ("stride", "i4"),
        ("size", "u4"),
    ]
)
STRAY = np.dtype(
    [
        ("address", "u8"),
        ("site", "u4"),
        ("size", "u4"),
        ("kind", "u4"),
        ("space", "u4"),
        ("block", "u4", (3,)),
        ("thread", "u4", (3,)),
    ],
    align=True,
)
CONFIG = np.dtype(
    [
        ("requests", "u8"),
        ("payload", "u8"),
        ("counts", "u8"),
        ("strays", "u8"),
        ("stray_count", "u8"),
        ("arena", "u8"),
        ("arena_bytes", "u8"),
        ("global_at", "u8", (MOST_GLOBALS,)),
        ("global_bytes", "u8", (MOST_GLOBALS,)),
        ("globals", "u4"),
        ("first", "u4"),
        ("blocks", "u4"),
        ("most_requests", "u4"),
        ("most_words", "u4"),
        ("steps", "u4"),
        ("barriers_end", "u4"),
    ],
    align=True,
)
_UNEVEN, _ALIKE = 0x80, 0x40
Rows = npt.NDArray[Any]


@dataclass(frozen=True)
class Decoded:
    """The blocks of a launch, with the sites and texts that the rows name."""

    sites: tuple[Site, ...]
    texts: tuple[str, ...]
    blocks: tuple[BlockLog, ...]


class Decoder:
    """Reads blocks one after another; `read_text` gives the text of so many bytes at an address of the GPU."""

    def __init__(self, sites: tuple[Site, ...], read_text: Callable[[int, int], str]) -> None:
        self._sites = list(sites)
        self._line_sites: dict[int, int] = {}
        self._texts: dict[tuple[int, int], int] = {}
        self._words: list[str] = []
        self._read_text = read_text

    def block(self, block: tuple[int, int, int], requests: Rows, payload: npt.NDArray[np.uint32]) -> BlockLog:
        """The log of one block from its requests and the words of its payload."""
        rows = _expanded(requests)
        extra: list[npt.NDArray[np.uint8]] = [payload.view(np.uint8)]
        at = payload.nbytes
        for kind, read in ((Kind.SNAPSHOT, self._snapshots), (Kind.HOLD, self._holds)):
            chosen = np.flatnonzero(rows["kind"] == kind)
            if len(chosen):
                infos = read(payload, rows["value"][chosen] // 4)
                rows["value"][chosen] = at + np.arange(len(chosen)) * infos.itemsize
                extra.append(infos.view(np.uint8).ravel())
                at += infos.nbytes
        by_line = np.isin(rows["kind"], (Kind.SNAPSHOT, Kind.HOLD, Kind.DROP))
        if by_line.any():
            lines, inverse = np.unique(rows["site"][by_line], return_inverse=True)
            rows["site"][by_line] = np.array([self._line_site(int(line)) for line in lines])[inverse]
        _even_addresses(rows, payload)
        rows = _arrived(rows)
        return BlockLog(block, rows, np.concatenate(extra) if len(extra) > 1 else extra[0])

    def finish(self, blocks: list[BlockLog]) -> Decoded:
        """All blocks read, with what their rows name."""
        return Decoded(tuple(self._sites), tuple(self._words), tuple(blocks))

    def _line_site(self, line: int) -> int:
        if line not in self._line_sites:
            self._line_sites[line] = len(self._sites)
            self._sites.append(Site(line))
        return self._line_sites[line]

    def _text(self, address: int, size: int) -> int:
        if (address, size) not in self._texts:
            self._texts[address, size] = len(self._words)
            self._words.append(self._read_text(address, size))
        return self._texts[address, size]

    def _text_numbers(self, words: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
        keys, inverse = np.unique(words[:, :3], axis=0, return_inverse=True)
        numbers = [self._text(int(low) | int(high) << 32, int(size)) for low, high, size in keys]
        return np.array(numbers)[inverse.ravel()]

    def _snapshots(self, payload: npt.NDArray[np.uint32], at: npt.NDArray[Any]) -> Rows:
        words = payload[at[:, None].astype(np.int64) + np.arange(16)]
        infos = np.zeros(len(at), SNAPSHOT_INFO)
        infos["text"] = self._text_numbers(words)
        infos["count"] = words[:, 3]
        infos["loops"] = np.ascontiguousarray(words[:, 4:]).view(np.int64)
        return infos

    def _holds(self, payload: npt.NDArray[np.uint32], at: npt.NDArray[Any]) -> Rows:
        words = payload[at[:, None].astype(np.int64) + np.arange(14)]
        infos = np.zeros(len(at), HOLD_INFO)
        infos["text"] = self._text_numbers(words)
        for column, name in ((3, "index"), (4, "element"), (5, "hidden"), (6, "rank")):
            infos[name] = words[:, column]
        infos["extents"] = words[:, 8:]
        return infos


def _expanded(requests: Rows) -> Rows:
    """One row for each lane of each request; an uneven one's address is still where it stands in the payload."""
    lanes = np.unpackbits(requests["mask"][:, None].view(np.uint8), axis=1, bitorder="little")
    number, lane = np.nonzero(lanes)
    counts = lanes.sum(axis=1, dtype=np.int64)
    rank = np.arange(len(number)) - np.repeat(np.cumsum(counts) - counts, counts)
    each = requests[number]
    rows = np.zeros(len(number), ROW)
    flags = each["space"]
    uneven, alike = (flags & _UNEVEN) > 0, (flags & _ALIKE) > 0
    words = np.where(
        np.isin(each["kind"], (Kind.WRITE, Kind.ATOMIC, COPY)), (each["size"].astype(np.int64) + 3) // 4, 0
    )
    at = each["payload"].astype(np.int64) + np.where(alike, 0, rank * (words + 2 * uneven))
    rows["address"] = np.where(
        uneven,
        at.astype(np.uint64),
        each["base"] + (each["stride"].astype(np.int64) * rank).astype(np.uint64),
    )
    rows["value"] = 4 * (at + 2 * uneven)
    rows["site"] = each["site"]
    rows["request"] = number
    rows["size"] = each["size"]
    rows["thread"] = each["warp"].astype(np.int64) * 32 + lane
    rows["kind"] = each["kind"]
    rows["space"] = flags
    return rows


def _even_addresses(rows: Rows, payload: npt.NDArray[np.uint32]) -> None:
    """Puts in the addresses of uneven requests, and takes the flags off."""
    uneven = np.flatnonzero(rows["space"] & _UNEVEN)
    if len(uneven):
        at = rows["address"][uneven].astype(np.int64)
        rows["address"][uneven] = payload[at].astype(np.uint64) | payload[at + 1].astype(
            np.uint64
        ) << np.uint64(32)
    rows["space"] &= 0x0F


def _share_requests(rows: Rows) -> None:
    """Gives each asynchronous copy the request of the read that it began with, so that the two can be known for one."""
    copies = np.flatnonzero(rows["kind"] == COPY)
    mine = np.flatnonzero(np.isin(rows["site"], rows["site"][copies]) & (rows["kind"] == Kind.READ))
    if not len(copies) or not len(mine):
        return
    key = rows["site"].astype(np.int64) << 16 | rows["thread"]
    order = mine[np.lexsort((mine, key[mine]))]
    place = np.searchsorted(key[order] * len(rows) + order, key[copies] * len(rows) + copies) - 1
    found = (place >= 0) & (key[order[place]] == key[copies])
    rows["request"][copies[found]] = rows["request"][order[place[found]]]


def _arrived(rows: Rows) -> Rows:
    """Asynchronous copies as writes at the wait that their thread did for them; those never waited for are left out."""
    special = np.flatnonzero(rows["kind"] >= COPY)
    if not len(special):
        return rows
    _share_requests(rows)
    when = np.arange(len(rows)) * 2
    keep = np.ones(len(rows), bool)
    open_: dict[int, list[int]] = {}
    groups: dict[int, list[list[int]]] = {}
    for at in special.tolist():
        thread, kind = int(rows["thread"][at]), int(rows["kind"][at])
        if kind == COPY:
            open_.setdefault(thread, []).append(at)
            keep[at] = False
            continue
        keep[at] = False
        if kind == COMMIT:
            groups.setdefault(thread, []).append(open_.pop(thread, []))
            continue
        pending = groups.get(thread, [])
        left = int(rows["size"][at])
        arrived, groups[thread] = (
            pending[: max(0, len(pending) - left)],
            pending[max(0, len(pending) - left) :],
        )
        if left == 0 and thread in open_:
            arrived = [*arrived, open_.pop(thread)]
        for group in arrived:
            for copy in group:
                keep[copy] = True
                when[copy] = 2 * at + 1
    rows["kind"][rows["kind"] == COPY] = Kind.WRITE
    order = np.argsort(when, kind="stable")
    return rows[order[keep[order]]]
