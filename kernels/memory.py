"""How much memory there is to record into, or to load a trace into."""

from __future__ import annotations

import re
from pathlib import Path


def available() -> int:
    """Bytes of memory that this process may still take without pushing others out, as far as the system says.

    Where it says nothing, 4 GiB.
    """
    limits = [_free_in_machine(), _free_in_container()]
    return min((limit for limit in limits if limit is not None), default=4 * 1024**3)


def _free_in_machine() -> int | None:
    try:
        found = re.search(
            r"^MemAvailable: +(\d+) kB$", Path("/proc/meminfo").read_text("ascii"), re.MULTILINE
        )
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None


def _free_in_container() -> int | None:
    folder = Path("/sys/fs/cgroup")
    try:
        most, used = ((folder / name).read_text("ascii").strip() for name in ("memory.max", "memory.current"))
    except OSError:
        return None
    return max(0, int(most) - int(used)) if most.isdigit() and used.isdigit() else None
