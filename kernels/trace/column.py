"""A column of a trace file: an array as bytes that take little room, and back."""

from __future__ import annotations

import math
import zlib
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from kernels.container import checksum
from kernels.trace.model import Array, dtype_of

DTYPES = frozenset(
    [
        "bool",
        "int8",
        "uint8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "uint64",
        "float16",
        "bfloat16",
        "float32",
        "float64",
    ]
)
_QUICK = 2**22  # bytes from which speed counts for more than size


class Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the bytes of an array say.

    `raw` is the bytes as they are; `zlib` the first bytes of all `width`-byte items, then the second, …, compressed;
    `delta` that of each integer less the one before it. `crc32` is of the array itself.
    """

    dtype: str
    shape: tuple[int, ...]
    codec: Literal["raw", "zlib", "delta"]
    width: int
    crc32: int

    @property
    def nbytes(self) -> int:
        """Bytes of the array; ValueError if it is none."""
        if self.dtype not in DTYPES or min(self.shape, default=0) < 0:
            raise ValueError(f"an array of {self.dtype[:20]} {self.shape} is none that a trace has")
        return math.prod(self.shape) * dtype_of(self.dtype).itemsize


def to_column(
    values: Array, *, delta: bool = False, width: int | None = None
) -> tuple[Column, npt.NDArray[np.uint8]]:
    """An array as a column and its bytes; `width` is that of its items, for uint8 that hold wider ones."""
    width = width or values.dtype.itemsize
    plain = np.ascontiguousarray(values).reshape(-1)
    data = plain.view(np.uint8)
    if delta:
        numbers = plain.view(f"u{values.dtype.itemsize}")
        data = np.diff(numbers, prepend=numbers.dtype.type(0)).view(np.uint8)
    planes = np.ascontiguousarray(data.reshape(-1, width).T)
    packed = zlib.compress(planes.data, 6 if planes.nbytes < _QUICK else 1)
    codec: Literal["raw", "zlib", "delta"] = "delta" if delta else "zlib"
    if len(packed) >= values.nbytes:
        codec, data = "raw", plain.view(np.uint8)
    else:
        data = np.frombuffer(packed, np.uint8)
    return Column(values.dtype.name, values.shape, codec, width, checksum(values)), data


def from_column(column: Column, data: Any) -> Array:
    """The array that `to_column` took apart; ValueError if it is anything else. The caller bounds `nbytes`."""
    kind = dtype_of(column.dtype)
    if column.codec == "raw":
        plain = np.frombuffer(data, np.uint8)
        if len(plain) != column.nbytes:
            raise ValueError("it is cut short")
    else:
        plain = _unpacked(column, data)
    if column.codec == "delta":
        if kind.kind not in "iu":
            raise ValueError(f"{column.dtype} has no differences")
        numbers = plain.view(f"u{kind.itemsize}")
        plain = np.cumsum(numbers, dtype=numbers.dtype).view(np.uint8)
    values = plain.view(kind).reshape(column.shape)
    if kind == np.bool_ and plain.size and plain.max() > 1:
        raise ValueError("a bool is neither true nor false")
    if checksum(values) != column.crc32:
        raise ValueError("it does not match its checksum")
    values.flags.writeable = False
    return values


def _unpacked(column: Column, data: Any) -> npt.NDArray[np.uint8]:
    size = column.nbytes
    if column.width < 1 or size % column.width:
        raise ValueError("its items do not fill it")
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(data, size + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if len(plain) != size or not stream.eof or stream.unused_data:
        raise ValueError("it is cut short")
    planes = np.frombuffer(plain, np.uint8).reshape(column.width, -1)
    return np.ascontiguousarray(planes.T).reshape(-1)
