"""Clock faults where the process says little: only what it read itself is evidence."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.contracts.environment import ProcessState
from harness.contracts.nemesis import Cluster, Fault
from harness.envs.clocks.orders import no_fake_clocks
from harness.errors import HarnessError
from harness.faults.choice import misfit
from harness.registry import nemeses
from harness.spec import RunSpec
from nemesis import clock, clock_strobe

PARAMS: Mapping[str, dict[str, Any]] = {
    "clock-jump": {"ms": 5_000},
    "clock-rate": {"ppm": 2_000_000},
    "clock-strobe": {"ms": 5_000, "period_ms": 5},
}
FROZEN = "the process is in state T"


class Dials:
    """A host whose process tells its time, or says why not; the clock goes as it was told."""

    name = "dials"

    def __init__(self, *, precision_ms: int = 1, state: str = "S") -> None:
        self.off_ms, self.ppm, self.state = 0, clock.PPM, state
        self.unread: str | None = FROZEN if state == "T" else None
        self.precision_ms = precision_ms
        self._passed: tuple[float, float] = (0.0, 0.0)  # when, and what it had gained

    @property
    def clocks(self) -> Dials:
        return self

    def process(self, node: str) -> ProcessState:
        return ProcessState(1, self.state, node)

    async def set_rate(self, node: str, ppm: int) -> None:
        del node
        self._passed, self.ppm = (self._now_s(), self._gained_s()), ppm

    async def jump_wall(self, node: str, ms: int) -> None:
        del node
        self.off_ms += ms

    async def clock(self, node: str) -> Mapping[str, Any]:
        del node
        await asyncio.sleep(0)
        true_ms = int(self._now_s() * 1e3)
        rated_ms = true_ms + int(self._gained_s() * 1e3)
        rated_ms -= rated_ms % self.precision_ms
        says: dict[str, Any] = {} if self.unread is None else {"unread": self.unread}
        says |= {"precision_ms": self.precision_ms} if self.precision_ms > 1 else {}
        wall_ms = rated_ms + self.off_ms
        return says | {"true_ms": true_ms, "wall_ms": wall_ms, "rated_ms": rated_ms}

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()

    def _gained_s(self) -> float:
        since_s, gained_s = self._passed
        return gained_s + (self._now_s() - since_s) * (self.ppm / clock.PPM - 1)


def cluster_of(host: Dials) -> Cluster:
    system = SimpleNamespace(name="s", nodes=("n1",), voters=("n1",), observers=())
    return cast("Cluster", SimpleNamespace(system=system, environment=host))


def fault(name: str) -> Fault:
    return Fault(1, name, 0, 1, {"target": "one", **PARAMS[name]}, 0.5)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (clock, clock_strobe):
        monkeypatch.setattr(module, "_SEEN_S", 0.1)
    monkeypatch.setattr(clock, "_RIGHT_S", 0.1)


@pytest.mark.parametrize("name", PARAMS)
@pytest.mark.parametrize("state", ["S", "T"])
def test_a_clock_that_its_process_did_not_read_is_not_counted_as_wrong(
    name: str, state: str
) -> None:
    async def main() -> None:
        host, nemesis = Dials(state=state), nemeses.get(name)()
        host.unread = "it does not say"
        cluster = cluster_of(host)
        injection = await nemesis.inject(fault(name), cluster)
        assert injection.outcome == "failed"
        assert injection.evidence[-1]["unread"] == "it does not say"
        if state == "S":
            with pytest.raises(HarnessError, match=r"still wrong: .*it does not say"):
                await nemesis.heal(fault(name), injection, cluster)
            host.unread = None
        await nemesis.heal(fault(name), injection, cluster)
        assert (host.off_ms, host.ppm) == (0, clock.PPM), "and what was done is undone, once"

    asyncio.run(main())


@pytest.mark.parametrize(("precision_ms", "outcome"), [(1, "installed"), (20, "installed")])
def test_a_rate_is_compared_as_exactly_as_the_process_tells_it(
    precision_ms: int, outcome: str
) -> None:
    async def main() -> None:
        host, nemesis = Dials(precision_ms=precision_ms), nemeses.get("clock-rate")()
        cluster = cluster_of(host)
        injection = await nemesis.inject(fault("clock-rate"), cluster)
        assert injection.outcome == outcome
        assert injection.evidence[-1].get("precision_ms", 1) == precision_ms
        await nemesis.heal(fault("clock-rate"), injection, cluster)

    asyncio.run(main())


@pytest.mark.skipif(no_fake_clocks() is not None, reason=str(no_fake_clocks()))
@pytest.mark.parametrize(
    ("system", "env", "reason"),
    [
        ("kraft", "local", None),
        ("kafka", "local", None),
        ("kafka", "docker", None),
        ("kafka", "ssh", None),
        ("atom", "local", "system 'atom' has no seam to set the clocks of its nodes"),
    ],
)
def test_clocks_are_ours_and_those_of_jvms_where_they_can_be_asked(
    system: str, env: str, reason: str | None
) -> None:
    spec = RunSpec(1, system=system, env=env, voters=3, observers=0)
    for name in PARAMS:
        found = misfit(nemeses.get(name)(), spec)
        assert (found or "").startswith(reason or "")
        assert (found is None) == (reason is None), found
