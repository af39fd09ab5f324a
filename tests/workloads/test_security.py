"""``security``: what is drawn, and who is refused."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from harness.errors import UsageError
from harness.sessions.plan import Plan
from harness.spec import RunSpec
from workloads.security import (
    AT_ONCE,
    NO_PASSWORDS,
    NO_QUOTAS,
    allow,
    expire,
    forbid,
    password,
    quota,
    token,
)


def test_controllers_that_serve_none_of_it_are_refused() -> None:
    with pytest.raises(UsageError, match="use --system kafka"):
        Plan.simulated(RunSpec(seed=1, workload="security", nemeses=()))


def test_quotas_are_of_users_clients_both_and_addresses_and_some_go() -> None:
    rng = Random(1)
    drawn = [quota(rng, n).value for n in range(200)]
    fine = [each for each in drawn if not is_senseless(each)]
    assert {frozenset(each["of"]) for each in fine} == {
        frozenset({"user"}),
        frozenset({"client-id"}),
        frozenset({"user", "client-id"}),
        frozenset({"ip"}),
    }
    assert any(each["value"] is None for each in fine)
    assert all(
        (each["name"] == "connection_creation_rate") == ("ip" in each["of"]) for each in fine
    )
    assert 10 < len(drawn) - len(fine) < 50


def is_senseless(quota: dict[str, Any]) -> bool:
    return (quota["of"], quota["name"], quota["value"]) in NO_QUOTAS


def test_one_of_two_thousand_quotas_is_set_twice_in_a_request() -> None:
    rng = Random(1)
    again = ["again" in quota(rng, n).value for n in range(30_000)]
    assert 4 < again.count(True) < 40


def test_what_must_be_refused_is_asked_for_now_and_then() -> None:
    rng = Random(1)
    passwords = [password(rng, n).value for n in range(300)]
    asked = {(each["user"], each["mechanism"], each["iterations"]) for each in passwords}
    assert asked.issuperset(NO_PASSWORDS)
    acls = [entry for n in range(100) for entry in allow(rng, n).value["entries"]]
    assert any(each["name"] == "" for each in acls)
    assert any(each["user"] is None for each in acls)
    renewers = [each for n in range(100) for each in token(rng, n).value["renewers"]]
    assert {kind for kind, _ in renewers} == {"User", "Group"}


def test_tokens_are_taken_back_and_acls_go_by_user_and_by_resource() -> None:
    rng = Random(1)
    assert {AT_ONCE, 1000} == {expire(rng, n).value["ms"] for n in range(50)}
    gone = [forbid(rng, n).value for n in range(50)]
    assert any(each["user"] is None for each in gone)
    assert any(each["name"] is None for each in gone)
    assert not any(each["user"] is None and each["name"] is None for each in gone), "not all"
