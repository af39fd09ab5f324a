"""Actions of Spark side by side: one is planned on one core while the tasks of others run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

AT_A_TIME = 3


def together(works: Iterable[Callable[[], Any]]) -> list[Any]:
    """What each gives, in their order; the first of them that fails is raised, when all are over.

    Each is a thread. A ``DataFrame`` may be used in any; what makes one may not.
    """
    with ThreadPoolExecutor(AT_A_TIME, thread_name_prefix="spark") as pool:
        done = [pool.submit(work) for work in works]
    return [each.result() for each in done]


def together_by_name(works: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
    """The same of works with names."""
    return dict(zip(works, together(works.values()), strict=True))
