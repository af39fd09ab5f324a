"""``take_all`` undoes what was done in steps: each is taken, whatever becomes of the others."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable
from typing import Any

from harness.agent.firewall import Refused


def take_all(steps: Iterable[tuple[str, Callable[[], Any]]]) -> dict[str, Any]:
    """Take steps, in their order; gives the result of each by its name.

    Raises:
        Refused: Some could not be taken; says why for each of them, once all others were.
    """
    done: dict[str, Any] = {}
    problems = []
    for name, step in steps:
        try:
            done[name] = step()
        except (Refused, OSError, subprocess.SubprocessError) as error:
            problems.append(str(error))
    if problems:
        raise Refused("; ".join(problems))
    return done
