"""One run from its folder, whatever is damaged: bad lines are counted and said, never fatal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.errors import HarnessError
from harness.store.reading import StoredRun, load_run


@dataclass(frozen=True, slots=True)
class Read:
    """The reading of a run; ``stored`` is None when it could not be, for ``problem``."""

    stored: StoredRun | None
    problem: str | None = None

    @property
    def lines_bad(self) -> int:
        """Tell how many lines of the run are cut off or not what they should be."""
        return 0 if self.stored is None else self.stored.lines_bad


def read_run(path: Path) -> Read:
    """Read a run. Lines that are not what they should be, and torn ones, are left out."""
    try:
        return Read(load_run(path, skip_bad=True))
    except (HarnessError, OSError) as error:
        return Read(None, str(error))
