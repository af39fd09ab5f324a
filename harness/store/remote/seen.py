"""Remembers which runs of a store in object storage an analysis has taken in.

Each run's manifest has a tag, which changes when the run is judged anew. So a run whose tag is
known need not be fetched again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from harness.errors import EnvError
from harness.store.folder import write_json

NAME: Final = "seen.json"  # beside the tables


def tags_in(folder: Path) -> dict[str, str]:
    """Read the tags of the runs that the tables of a folder have, by the runs' names.

    Raises:
        EnvError: The file is not what ``remember`` writes.
    """
    path = folder / NAME
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise EnvError(f"{path}: {error}; remove it to have all runs fetched again") from None
    if not isinstance(found, dict) or not all(isinstance(tag, str) for tag in found.values()):
        raise EnvError(f"{path}: want names of runs and tags; remove it to fetch all runs again")
    return found


def remember(folder: Path, tags: Mapping[str, str]) -> None:
    """Write the tags of the runs that the tables of a folder have now."""
    write_json(folder / NAME, dict(tags))
