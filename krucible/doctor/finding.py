"""The finding of one check of ``krucible doctor``."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Status = Literal["ok", "warn", "bad"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The finding of one check; ``remedy`` says what to do when it is not ``ok``."""

    name: str
    status: Status
    detail: str
    remedy: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The finding as a JSON object."""
        return asdict(self)
