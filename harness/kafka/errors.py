"""Kafka's error codes as outcomes: does the answer say for sure that nothing happened?

The one table that decides between ``fail`` and ``info``. A code that is not here is indefinite:
when in doubt nobody knows. Source: Kafka's protocol error list; KRaft's rule that an operation
pending at the loss of leadership may still commit.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """One error code: its name in histories, and whether it means "did not happen"."""

    name: str
    definite: bool


BAD_ANSWER = "bad-answer"  # in histories: it cannot be read, or is none to what was asked
NOT_CONTROLLER = 41
UNKNOWN_TOPIC_OR_PARTITION = 3
TOPIC_ALREADY_EXISTS = 36

ERRORS: dict[int, ErrorInfo] = {
    -1: ErrorInfo("unknown-server-error", definite=False),
    3: ErrorInfo("unknown-topic", definite=True),
    5: ErrorInfo("leader-not-available", definite=False),
    6: ErrorInfo("not-leader", definite=False),
    7: ErrorInfo("request-timed-out", definite=False),
    8: ErrorInfo("broker-not-available", definite=False),
    14: ErrorInfo("coordinator-load-in-progress", definite=True),
    17: ErrorInfo("invalid-topic", definite=True),
    29: ErrorInfo("topic-authorization-failed", definite=True),
    35: ErrorInfo("unsupported-version", definite=True),
    36: ErrorInfo("topic-already-exists", definite=True),
    37: ErrorInfo("invalid-partitions", definite=True),
    38: ErrorInfo("invalid-replication-factor", definite=True),
    39: ErrorInfo("invalid-replica-assignment", definite=True),
    40: ErrorInfo("invalid-config", definite=True),
    # Kafka gives 41 both to a request that was never tried and to one that was pending when the
    # controller stepped down, so the code alone says nothing.
    41: ErrorInfo("not-controller", definite=False),
    42: ErrorInfo("invalid-request", definite=True),
    44: ErrorInfo("policy-violation", definite=True),
    62: ErrorInfo("token-not-found", definite=True),
    63: ErrorInfo("token-owner-mismatch", definite=True),
    66: ErrorInfo("token-expired", definite=True),
    74: ErrorInfo("fenced-leader-epoch", definite=True),
    77: ErrorInfo("stale-broker-epoch", definite=True),
    80: ErrorInfo("preferred-leader-not-available", definite=True),
    83: ErrorInfo("eligible-leaders-not-available", definite=True),
    84: ErrorInfo("election-not-needed", definite=True),
    85: ErrorInfo("no-reassignment-in-progress", definite=True),
    87: ErrorInfo("invalid-record", definite=True),
    89: ErrorInfo("throttling-quota-exceeded", definite=True),
    91: ErrorInfo("resource-not-found", definite=True),
    92: ErrorInfo("duplicate-resource", definite=True),
    93: ErrorInfo("unacceptable-credential", definite=True),
    95: ErrorInfo("invalid-update-version", definite=True),
    100: ErrorInfo("unknown-topic-id", definite=True),
    101: ErrorInfo("duplicate-broker-registration", definite=True),
    102: ErrorInfo("broker-id-not-registered", definite=True),
    104: ErrorInfo("inconsistent-cluster-id", definite=True),
    107: ErrorInfo("ineligible-replica", definite=True),
    # although it is an error, what was asked for is done: a reassignment came to its end with it
    108: ErrorInfo("new-leader-elected", definite=False),
}


def describe(code: int) -> ErrorInfo:
    """Tell what a code means; unknown codes are indefinite."""
    return ERRORS.get(code, ErrorInfo(f"error-{code}", definite=False))
