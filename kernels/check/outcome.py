"""What a sanitizer said."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """What one tool found in one kernel; `missing` says why it could not run, and is None if it did."""

    findings: tuple[str, ...] = ()
    missing: str | None = None

    @property
    def clean(self) -> bool:
        """Whether the tool ran and found nothing."""
        return self.missing is None and not self.findings

    def __str__(self) -> str:
        if self.missing is not None:
            return f"could not run: {self.missing}"
        return "; ".join(self.findings) or "clean"
