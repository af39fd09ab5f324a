"""``security``: what is drawn, and who is refused."""

from __future__ import annotations

from random import Random

import pytest

from harness.errors import UsageError
from harness.sessions.plan import Plan
from harness.spec import RunSpec
from workloads.security import AT_ONCE, expire, forbid, quota


def test_controllers_that_serve_none_of_it_are_refused() -> None:
    with pytest.raises(UsageError, match="use --system kafka"):
        Plan.simulated(RunSpec(seed=1, workload="security", nemeses=()))


def test_quotas_are_of_users_clients_both_and_addresses_and_some_go() -> None:
    rng = Random(1)
    drawn = [quota(rng, n).value for n in range(200)]
    assert {frozenset(each["of"]) for each in drawn} == {
        frozenset({"user"}),
        frozenset({"client-id"}),
        frozenset({"user", "client-id"}),
        frozenset({"ip"}),
    }
    assert any(each["value"] is None for each in drawn)
    assert all(
        (each["name"] == "connection_creation_rate") == ("ip" in each["of"]) for each in drawn
    )


def test_tokens_are_taken_back_and_acls_go_by_user_and_by_resource() -> None:
    rng = Random(1)
    assert {AT_ONCE, 1000} == {expire(rng, n).value["ms"] for n in range(50)}
    gone = [forbid(rng, n).value for n in range(50)]
    assert any(each["user"] is None for each in gone)
    assert any(each["name"] is None for each in gone)
    assert not any(each["user"] is None and each["name"] is None for each in gone), "not all"
