"""Tells the anomalies of a run to people, in a line for each way in which it is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from harness import catalogue
from harness.run.explained import told


def lines(anomalies: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Tell the first anomaly of each invariant, how many more there are, and what explains them.

    Takes anomalies as JSON objects, in the order in which they are to be told.
    """
    counts, first = Counter[tuple[str, str]](), dict[tuple[str, str], str]()
    for anomaly in anomalies:
        key = anomaly["invariant"], told(anomaly["details"])
        counts[key] += 1
        first.setdefault(key, anomaly["message"])
    for (invariant, why), times in counts.items():
        more = f" (and {times - 1} more like it)" if times > 1 else ""
        explained = f" [{why}]" if why else ""
        yield f"{catalogue.full_name(invariant)}: {first[invariant, why]}{more}{explained}"
