"""Guards: hold plug-ins to their contracts and name the rule that one broke.

The kernel wraps every client, nemesis and checker; a plug-in that keeps its contract notices
nothing. A broken rule is a ``GuardError``: the harness's fault, never the system's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, cast

import msgspec

from harness.contracts.checker import Checker, RunData
from harness.contracts.clients import Client
from harness.contracts.nemesis import Cluster, Fault, Injection, Nemesis
from harness.errors import GuardError
from harness.history.ops import History, Op
from harness.verdict import CheckResult, Valid

COMPLETIONS = ("ok", "fail", "info")
OUTCOMES = ("installed", "skipped", "failed")
_JSON = msgspec.json.Encoder()


class GuardedClient:
    """A client whose completions are checked."""

    def __init__(self, inner: Client) -> None:
        self._inner = inner

    async def open(self, node: str) -> GuardedClient:
        """Open the inner client."""
        opened = await self._inner.open(node)
        if opened is None:
            raise GuardError(f"{_name(self._inner)}.open({node!r}) returned None, want a client")
        return GuardedClient(opened)

    async def invoke(self, op: Op) -> Op:
        """Do the op and check its completion."""
        completion = await self._inner.invoke(op)
        check_completion(op, completion, client=self._inner)
        return completion

    async def close(self) -> None:
        """Close the inner client."""
        await self._inner.close()


def check_completion(op: Op, completion: Op, *, client: Any = "client") -> None:
    """Check that ``completion`` completes ``op``.

    Raises:
        GuardError: With the rule that is broken.
    """
    if not isinstance(completion, Op):
        raise GuardError(
            f"{_name(client)}.invoke({op.f!r}) returned {completion!r}, want an Op "
            "(use op.with_(type=..., value=...))"
        )
    if completion.type not in COMPLETIONS:
        raise GuardError(
            f"{_name(client)}: completion of op {op.index} has type {completion.type!r}, "
            "want ok, fail or info"
        )
    for field in ("process", "f", "key"):
        was, now = getattr(op, field), getattr(completion, field)
        if was != now:
            raise GuardError(
                f"{_name(client)}: completion of op {op.index} changed {field} "
                f"from {was!r} to {now!r}"
            )


class GuardedNemesis:
    """A nemesis whose injections and heals are checked."""

    def __init__(self, name: str, inner: Nemesis) -> None:
        self.name = name
        self._inner = inner

    @property
    def family(self) -> str:
        """The inner nemesis's family."""
        return self._inner.family

    def available(self, cluster: Cluster) -> str | None:
        """The inner nemesis's answer; a refusal must say why."""
        reason: object = self._inner.available(cluster)
        if reason is None:
            return None
        if not isinstance(reason, str) or not reason.strip():
            raise GuardError(f"nemesis {self.name}: available() returned {reason!r}, want a reason")
        return reason

    def params(self, rng: Random) -> Mapping[str, Any]:
        """The inner nemesis's parameters; they must be a JSON object."""
        params = self._inner.params(rng)
        if not isinstance(params, Mapping):
            raise GuardError(f"nemesis {self.name}: params() returned {params!r}, want a mapping")
        self._want_json("params()", dict(params))
        return params

    async def inject(self, fault: Fault, cluster: Cluster) -> Injection:
        """Inject and check the outcome: evidence when installed, else a reason."""
        injection = await self._inner.inject(fault, cluster)
        self._check_injection(injection)
        return injection

    def _check_injection(self, injection: Injection) -> None:
        if not isinstance(injection, Injection):
            raise GuardError(
                f"nemesis {self.name}: inject() returned {injection!r}, want an Injection"
            )
        if injection.outcome not in OUTCOMES:
            raise GuardError(
                f"nemesis {self.name}: outcome is {injection.outcome!r}, "
                "want installed, skipped or failed"
            )
        if injection.outcome == "installed" and not injection.evidence:
            raise GuardError(f"nemesis {self.name}: a fault is installed but has no evidence")
        if injection.outcome != "installed" and not injection.reason:
            raise GuardError(f"nemesis {self.name}: a fault is {injection.outcome} without reason")
        self._want_json("the injection", injection.to_json())

    async def heal(self, fault: Fault, injection: Injection, cluster: Cluster) -> Mapping[str, Any]:
        """Heal and check that there is evidence of it."""
        evidence: Any = await self._inner.heal(fault, injection, cluster)
        if not isinstance(evidence, Mapping) or not evidence:
            raise GuardError(
                f"nemesis {self.name}: heal() returned {evidence!r}, want evidence (an object)"
            )
        self._want_json("heal()'s evidence", dict(evidence))
        return cast("Mapping[str, Any]", evidence)

    def _want_json(self, what: str, value: Any) -> None:
        try:
            _JSON.encode(value)
        except (TypeError, ValueError, msgspec.MsgspecError) as error:
            raise GuardError(f"nemesis {self.name}: {what} is not JSON: {error}") from error


def guarded_checker(name: str, checker: Checker) -> Checker:
    """The checker with its result checked; its own exceptions pass through."""

    def check(run: RunData) -> CheckResult:
        result = checker(run)
        check_result(name, result)
        return result

    return check


def guarded_judge(name: str, judge: Callable[..., CheckResult]) -> Callable[..., CheckResult]:
    """The ``check`` of the model ``name``, with what it takes and what it returns checked."""

    def check(history: History, **limits: Any) -> CheckResult:
        try:
            inspect.signature(judge).bind(history, **limits)
        except TypeError as error:
            raise GuardError(
                f"model {name}: {judge.__module__}.{judge.__qualname__}() {error}; make it "
                f"check(self, history, *, {', '.join(limits)}), see docs/adding.md"
            ) from error
        result = judge(history, **limits)
        check_result(name, result)
        return result

    return check


def check_result(name: str, result: CheckResult) -> None:
    """Check a checker's result.

    Raises:
        GuardError: With the rule that is broken.
    """
    if not isinstance(result, CheckResult):
        raise GuardError(f"checker {name}: returned {result!r}, want a CheckResult")
    if not isinstance(result.valid, Valid):
        raise GuardError(
            f"checker {name}: valid is {result.valid!r}, want one of "
            f"{', '.join(f'Valid.{v.name}' for v in Valid)}"
        )
    if result.valid is Valid.INVALID and not result.anomalies:
        raise GuardError(f"checker {name}: says invalid but names no anomaly")
    if result.valid is not Valid.INVALID and result.anomalies:
        raise GuardError(
            f"checker {name}: says {result.valid} but names {len(result.anomalies)} anomalies"
        )
    if result.valid is Valid.UNKNOWN and not result.reason:
        raise GuardError(f"checker {name}: says unknown without a reason")


def _name(plugin: Any) -> str:
    return plugin if isinstance(plugin, str) else type(plugin).__name__
