"""Lists what nodes of Kafka print when they are known to end, and what a lost log breaks then."""

from __future__ import annotations

from typing import Final

from harness.verdict import Known

Signs = tuple[tuple[str, str], ...]  # invariants, each with a part of its message

# Where a log has lost committed records, whatever was built on them is wrong as well.
_OF_LOSS: Final = (
    "S9 S10 S11 S15 S17 S18 S20 S22 S25 S34 C1 C4 C8 C9 C10 C11 C16 C17 L8 all-or-nothing"
    " linearizability incompatible-order lost-update lost-write unseen"
)
OF_LOSS: Final[Signs] = (
    *((name, "") for name in _OF_LOSS.split()),
    ("crash", "The leader requested truncation to offset"),
)

# A controller whose event fails gives up, and its node the leadership, each time it comes to that.
_GIVES_UP: Final[Signs] = (("L3", " although nothing was wrong any more"),)

# What a node prints of its mistakes: the run is invalid, and the reader knows the story at once.
CRASHES: Final[tuple[Known, ...]] = (
    Known(
        "crash",
        "incrementalAlterConfigs: event failed with NullPointerException",
        "docs/findings.md, a change of a setting that makes no sense",
        red=True,
        then=_GIVES_UP,
    ),
    Known(
        "crash",
        "event failed with NumberFormatException",
        "docs/findings.md, a minimum that is no number",
        red=True,
        then=_GIVES_UP,
    ),
    Known(
        "crash",
        "Unexpected acknowledgement from non-voter",
        "docs/findings.md, a removed voter's answer",
        red=True,
    ),
    Known(
        "crash",
        "existed in isrMembers, but not in the topics map",
        "docs/findings.md, a deleted topic ends each controller",
        red=True,
        then=_GIVES_UP,
    ),
    Known(
        "crash",
        "Expected to be Follower, but the current state is UnattachedState",
        "docs/findings.md, a node that knows its leader but not where it is",
        red=True,
    ),
    Known(
        "crash",
        "Unknown leader endpoints (Endpoints(endpoints={})) after request",
        "docs/findings.md, the end of an epoch ends a controller",
        red=True,
    ),
    *(
        Known("crash", told, "docs/findings.md, a request that makes no sense", red=True)
        for told in (
            "ConfigException: The provided listener name is null or empty string",
            "Received a FETCH/FETCH_SNAPSHOT request from the leader itself",
            "Cannot add voted key (ReplicaKey(id=",  # a candidate with the id of who is asked
            " matches the local leader ID",
            "IllegalArgumentException: Invalid position or size: ",  # of a part of a snapshot
            "IllegalArgumentException: Invalid size: ",
        )
    ),
    Known(
        "crash",
        "Received unexpected invalid request error",
        "docs/findings.md, voters that lost the same election",
        red=True,
    ),
    Known(
        "crash",
        "Unexpected error handling request RequestHeader(apiKey=FETCH_SNAPSHOT",
        "docs/findings.md, an answer that cannot be written",
        red=True,
    ),
    Known(
        "crash",
        "Deleting the corrupt segment",
        "docs/findings.md, an error while a log is recovered",
        red=True,
        then=OF_LOSS,
    ),
    *(
        Known("crash", told, "docs/findings.md, a leader without its quorum-state", red=True)
        for told in (
            "which is inconsistent with current leader OptionalInt.empty",
            "since it matches the local node.id",
        )
    ),
)

# A controller that takes back what it had removed and was not committed (KAFKA-14946).
ENDS_RENOUNCING: Final = Known(
    "crash",
    "exception while renouncing leadership",
    "docs/kafka.md, a controller before 3.4.1 that renounces",
    red=True,
    then=(("S21", " has renounced epoch "), ("L8", " has ended (process "), ("crash", ".fatal(")),
)
