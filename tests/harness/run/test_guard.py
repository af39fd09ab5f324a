"""Guards: each rule that a plug-in can break has its own message."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from harness.contracts.checker import Checker, RunData
from harness.contracts.clients import Client
from harness.contracts.nemesis import Cluster, Fault, Injection, Nemesis
from harness.errors import GuardError
from harness.history.ops import History, Op
from harness.run.guard import (
    GuardedClient,
    GuardedNemesis,
    check_completion,
    guarded_checker,
    guarded_judge,
)
from harness.spec import RunSpec
from harness.verdict import Anomaly, CheckResult, Valid
from tests.support.live.kernel import FakeNemesis

OP = Op(3, 10, 1, "invoke", "write", 7, "k1", node="n1")
FAULT = Fault(0, "fake", 0, 1)
CLUSTER = cast("Cluster", None)
RUN = RunData(RunSpec(seed=1), History(()))


def test_a_good_completion_passes() -> None:
    for type_ in ("ok", "fail", "info"):
        check_completion(OP, OP.with_(type=type_, value=None, error="e"))


@pytest.mark.parametrize(
    ("completion", "message"),
    [
        (None, "returned None, want an Op"),
        (OP, "has type 'invoke', want ok, fail or info"),
        (OP.with_(type="done"), "has type 'done'"),
        (OP.with_(type="ok", process=2), "changed process from 1 to 2"),
        (OP.with_(type="ok", f="read"), "changed f from 'write' to 'read'"),
        (OP.with_(type="ok", key=None), "changed key from 'k1' to None"),
    ],
)
def test_a_bad_completion_is_named(completion: Any, message: str) -> None:
    with pytest.raises(GuardError, match=message):
        check_completion(OP, completion)


def test_a_client_must_open_a_client() -> None:
    class Forgetful:
        async def open(self, _: str) -> Client:
            return cast("Client", None)

        async def invoke(self, op: Op) -> Op:
            return op

        async def close(self) -> None: ...

    with pytest.raises(GuardError, match=r"Forgetful.open\('n1'\) returned None"):
        asyncio.run(GuardedClient(Forgetful()).open("n1"))


def injecting(injection: Any) -> Nemesis:
    class Odd(FakeNemesis):
        async def inject(self, *_: Any) -> Any:
            return injection

    return Odd()


@pytest.mark.parametrize(
    ("injection", "message"),
    [
        (None, "returned None, want an Injection"),
        (Injection("done"), "outcome is 'done'"),  # type: ignore[arg-type]
        (Injection("installed"), "installed but has no evidence"),
        (Injection("skipped"), "skipped without reason"),
        (Injection("failed"), "failed without reason"),
        (Injection("installed", evidence=({"at": object()},)), "is not JSON"),
    ],
)
def test_a_bad_injection_is_named(injection: Any, message: str) -> None:
    with pytest.raises(GuardError, match=f"nemesis fake: .*{message}"):
        asyncio.run(GuardedNemesis("fake", injecting(injection)).inject(FAULT, CLUSTER))


@pytest.mark.parametrize("evidence", [None, {}, "gone", {"at": object()}])
def test_a_heal_must_show_evidence(evidence: Any) -> None:
    class Odd(FakeNemesis):
        async def heal(self, *_: Any) -> Any:
            return evidence

    with pytest.raises(GuardError, match="nemesis fake: heal"):
        asyncio.run(GuardedNemesis("fake", Odd()).heal(FAULT, Injection("installed"), CLUSTER))


def test_params_and_refusals_are_checked() -> None:
    class Odd(FakeNemesis):
        def params(self, _: Any) -> Any:
            return ["leader"]

        def available(self, _: Cluster) -> str | None:
            return ""

    nemesis = GuardedNemesis("fake", Odd())
    with pytest.raises(GuardError, match="want a mapping"):
        nemesis.params(cast("Any", None))
    with pytest.raises(GuardError, match="want a reason"):
        nemesis.available(CLUSTER)
    assert GuardedNemesis("fake", FakeNemesis()).available(CLUSTER) is None
    assert nemesis.family == "fake"


ANOMALY = Anomaly("S1", "two leaders")


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (True, "returned True, want a CheckResult"),
        (CheckResult("c", True), "valid is True"),  # type: ignore[arg-type]
        (CheckResult("c", Valid.INVALID), "invalid but names no anomaly"),
        (CheckResult("c", Valid.VALID, (ANOMALY,)), "valid but names 1 anomalies"),
        (CheckResult("c", Valid.UNKNOWN), "unknown without a reason"),
    ],
)
def test_a_bad_check_result_is_named(result: Any, message: str) -> None:
    checker: Callable[[RunData], Any] = lambda _: result  # noqa: E731 - one per case
    with pytest.raises(GuardError, match=f"checker c: .*{message}"):
        guarded_checker("c", cast("Checker", checker))(RUN)


def test_a_good_check_result_passes() -> None:
    result = CheckResult("c", Valid.INVALID, (ANOMALY,))
    assert guarded_checker("c", lambda _: result)(RUN) is result


LIMITS = {"conventions": None, "time_limit_s": 1.0, "memory_limit_bytes": None}


class BeforeMemory:
    """Made when there was no limit of memory."""

    def check(self, history: History, *, conventions: Any, time_limit_s: float) -> CheckResult:
        raise AssertionError(f"no limit of memory: {history}, {conventions}, {time_limit_s}")


def test_a_judge_of_an_older_shape_is_told_what_it_lacks() -> None:
    with pytest.raises(
        GuardError,
        match=r"model old: .*BeforeMemory\.check\(\) got an unexpected keyword argument "
        r"'memory_limit_bytes'; make it check\(self, history, \*, conventions, time_limit_s, "
        r"memory_limit_bytes\), see docs/adding.md",
    ):
        guarded_judge("old", BeforeMemory().check)(History(()), **LIMITS)


def test_a_judge_must_return_a_result_and_its_own_errors_pass() -> None:
    def empty(_: History, **__: Any) -> Any:
        return {}

    def broken(history: History, **limits: Any) -> Any:
        raise TypeError(f"of its own: {len(history)}, {sorted(limits)}")

    with pytest.raises(GuardError, match=r"returned \{\}, want a CheckResult"):
        guarded_judge("empty", empty)(History(()), **LIMITS)
    with pytest.raises(TypeError, match="of its own"):
        guarded_judge("broken", broken)(History(()), **LIMITS)
