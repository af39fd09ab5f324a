"""Tells clients of brokers from those of controllers; refuses runs that lack the former."""

from __future__ import annotations

from collections.abc import Callable

from harness.errors import UsageError
from harness.generators.generator import Draft
from harness.spec import RunSpec


def need_client_of_broker(spec: RunSpec, workload: str) -> None:
    """Refuse a run none of whose clients is that of a broker.

    Raises:
        UsageError: There is no broker, or too few clients for the last of them to be on one.
    """
    if spec.observers < 1 or spec.concurrency <= spec.voters:
        raise UsageError(
            f"workload {workload!r} needs a client on a broker: --observers {spec.observers} and "
            f"--concurrency {spec.concurrency} with {spec.voters} voters have none; use --observers"
            f" 1 or more and --concurrency {spec.voters + 1} or more"
        )


def by_brokers(spec: RunSpec, change: Callable[[Draft], Draft]) -> Callable[[Draft], Draft]:
    """Change only what clients of brokers do: clients go to the nodes in turn, voters first."""
    nodes = spec.voters + spec.observers

    def changed(draft: Draft) -> Draft:
        return change(draft) if draft.thread % nodes >= spec.voters else draft

    return changed
