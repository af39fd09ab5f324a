"""``krucible.clients``: whether brokers forward what their clients change."""

from __future__ import annotations

from typing import Any

import pytest

from harness.errors import UsageError
from harness.sessions.plan import Plan
from harness.sessions.simulated import SimRun, simulate
from harness.spec import SIM, RunSpec
from harness.verdict import Valid
from node.driver.apis.forwarding import EnvelopeForwarder

SETTING = "krucible.clients"


def played(clients: str | None, **options: Any) -> SimRun:
    given: dict[str, Any] = {"observers": 2, "concurrency": 5, **options}
    settings = {} if clients is None else {SETTING: clients}
    spec = RunSpec(3, env=SIM, nemeses=("kill",), time_limit_s=5, settings=settings, **given)
    return simulate(Plan.simulated(spec))


@pytest.mark.parametrize(
    ("clients", "options", "forwards"),
    [
        ("brokers", {}, True),
        ("brokers", {"workload": "topics"}, True),
        ("brokers", {"observers": 0}, False),  # nobody is there who could
        ("brokers", {"concurrency": 3}, False),  # all are clients of controllers
        ("controllers", {}, False),
        (None, {}, False),
    ],
)
def test_brokers_forward_what_their_clients_change(
    monkeypatch: pytest.MonkeyPatch, clients: str | None, options: dict[str, Any], forwards: bool
) -> None:
    forwarded = list[Any]()
    original = EnvelopeForwarder.forward

    async def forward(self: EnvelopeForwarder, request: Any, timeout_s: float) -> bytes:
        forwarded.append(request)
        return await original(self, request, timeout_s)

    monkeypatch.setattr(EnvelopeForwarder, "forward", forward)
    run = played(clients, **options)
    assert run.verdict is Valid.VALID, run.judgement.reasons
    writes = [op for op in run.data.history.clients() if op.type == "ok" and op.f != "read"]
    assert len(writes) > 10
    assert (len(forwarded) > 10) == forwards, len(forwarded)


@pytest.mark.parametrize(
    ("system", "clients", "why"),
    [
        ("kraft", "all", "--set krucible.clients=all: want controllers or brokers"),
        ("kafka", "all", "--set krucible.clients=all: want controllers or brokers"),
        ("kafka", "brokers", "simulated brokers of Kafka take no requests"),
    ],
)
def test_what_cannot_be_is_refused(system: str, clients: str, why: str) -> None:
    spec = RunSpec(3, system=system, env=SIM, settings={SETTING: clients})
    with pytest.raises(UsageError, match=why):
        Plan.simulated(spec)
