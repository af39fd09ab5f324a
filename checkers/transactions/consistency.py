"""Lists the anomalies that each consistency model forbids.

Source: Adya, "Weak Consistency" (1999); Cerone and Gotsman, "Analysing Snapshot Isolation"
(2016); Daudjee and Salem (2004) for the strong and the session variants.
"""

from __future__ import annotations

from harness.errors import UsageError
from harness.registry import unknown

STRICT = "strict-serializable"
_PROCESS, _REALTIME = "-process", "-realtime"

# What each adds to the one before: anomalies of reads and writes, and kinds of cycles.
_READ_UNCOMMITTED = frozenset({"duplicate-elements", "garbage-read"})
_READ_COMMITTED = _READ_UNCOMMITTED | {
    "G1a",
    "G1b",
    "dirty-update",
    "future-read",
    "incompatible-order",
}
_ATOMIC = _READ_COMMITTED | {"internal", "lost-update"}
_CYCLES = {
    "read-uncommitted": frozenset({"G0"}),
    "read-committed": frozenset({"G0", "G1c"}),
    "snapshot-isolation": frozenset({"G0", "G1c", "G-single", "G-nonadjacent"}),
    "serializable": frozenset({"G0", "G1c", "G-single", "G-nonadjacent", "G2-item"}),
}
_PLAIN = {
    "read-uncommitted": _READ_UNCOMMITTED,
    "read-committed": _READ_COMMITTED,
    "snapshot-isolation": _ATOMIC,
    "serializable": _ATOMIC,
}


def _model(base: str, *suffixes: str) -> frozenset[str]:
    return _PLAIN[base] | {cycle + suffix for cycle in _CYCLES[base] for suffix in ("", *suffixes)}


FORBIDDEN: dict[str, frozenset[str]] = {
    "read-uncommitted": _model("read-uncommitted"),
    "read-committed": _model("read-committed"),
    "snapshot-isolation": _model("snapshot-isolation"),
    "serializable": _model("serializable"),
    "strong-session-snapshot-isolation": _model("snapshot-isolation", _PROCESS),
    "strong-session-serializable": _model("serializable", _PROCESS),
    "strong-snapshot-isolation": _model("snapshot-isolation", _PROCESS, _REALTIME),
    STRICT: _model("serializable", _PROCESS, _REALTIME),
}


def forbidden(model: str) -> frozenset[str]:
    """The anomalies that a model forbids.

    Raises:
        UsageError: A model we do not know, with the nearest.
    """
    try:
        return FORBIDDEN[model]
    except KeyError:
        raise UsageError(unknown("consistency model", model, list(FORBIDDEN))) from None


def needs_process(model: str) -> bool:
    """Tell whether the order of what one process does counts."""
    return "G0" + _PROCESS in forbidden(model)


def needs_realtime(model: str) -> bool:
    """Tell whether the order of time counts."""
    return "G0" + _REALTIME in forbidden(model)


def violated(anomalies: set[str]) -> list[str]:
    """The models that do not hold, given the anomalies that are there."""
    return [model for model, names in FORBIDDEN.items() if names & anomalies]
