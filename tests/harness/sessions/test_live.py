"""Sessions: whatever goes wrong around a run, everything is stopped and what was seen is judged."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from harness.contracts.nemesis import Cluster, Fault, Injection
from harness.errors import NodeStartError, UsageError
from harness.faults.schedule import load
from harness.registry import environments, nemeses, systems
from harness.run.judge import Judgement
from harness.run.recorder import Silence
from harness.run.runner import RunResult
from harness.sessions import live as session
from harness.spec import RunSpec
from harness.store.folder import RunDir, Store
from harness.store.reading import load_results
from harness.systems.atom import AtomSystem
from harness.verdict import Valid
from krucible.stores import opened
from tests.support.live.kernel import FakeNemesis
from tests.support.wire.server import until

SPEC = RunSpec(
    seed=3,
    system="atom",
    nemeses=("none",),
    time_limit_s=1.0,
    rate_hz=200.0,
    concurrency=5,
    settings={"atom.latency-ms": "1"},
)


class Recorded(AtomSystem):
    """The atom system, which notes its lifecycle and fails where a test says."""

    log: list[str]
    fails: dict[str, BaseException]
    slow_s = 0.0

    async def setup(self) -> None:
        self._step("setup")

    async def teardown(self) -> None:
        self._step("teardown")
        await asyncio.sleep(self.slow_s)

    def collect(self) -> None:
        self._step("collect")

    def _step(self, name: str) -> None:
        self.log.append(name)
        if name in self.fails:
            raise self.fails[name]


class Nowhere:
    """An environment that notes that it was set up and stopped."""

    log: list[str]

    def __init__(self, *_: Any) -> None: ...

    async def setup(self, _: Sequence[str]) -> None:
        self.log.append("environment up")

    async def teardown(self) -> None:
        self.log.append("environment down")


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lifecycle of the run."""
    log: list[str] = []
    monkeypatch.setattr(Recorded, "log", log, raising=False)
    monkeypatch.setattr(Recorded, "fails", {}, raising=False)
    monkeypatch.setattr(Recorded, "slow_s", 0.0)
    monkeypatch.setattr(Nowhere, "log", log, raising=False)
    monkeypatch.setattr(systems, "get", lambda _: Recorded)
    monkeypatch.setattr(environments, "get", lambda _: Nowhere)
    return log


def prepared(tmp_path: Path, spec: RunSpec = SPEC, **more: Any) -> session.Session:
    return session.prepare(spec, opened(tmp_path / "store"), **more)


def execute(tmp_path: Path, spec: RunSpec = SPEC) -> session.Session:
    return session.execute(prepared(tmp_path, spec), state_dir=tmp_path / "state")


WHOLE = ["environment up", "setup", "teardown", "environment down", "collect"]


def test_a_run_goes_up_and_down_in_order(tmp_path: Path, log: list[str]) -> None:
    done = execute(tmp_path)
    assert log == WHOLE
    assert done.exit_code == 0
    assert done.summary()["verdict"] == "valid"
    assert done.summary()["harness_error"] is None
    assert not done.interrupted
    assert list((tmp_path / "state").iterdir()) == []


def test_a_system_that_does_not_come_up_is_taken_down_and_judged_as_that(
    tmp_path: Path, log: list[str]
) -> None:
    Recorded.fails["setup"] = NodeStartError("n1 does not answer")
    ready = prepared(tmp_path)
    with pytest.raises(NodeStartError, match="n1 does not answer"):
        session.execute(ready, state_dir=tmp_path / "state")
    assert log == WHOLE
    stored = load_results(ready.run_dir)
    assert stored is not None
    assert (stored["system"], stored["exit_code"]) == ("unknown", 255)
    assert stored["harness_reasons"] == ["the run did not start: n1 does not answer"]
    assert "the run did not start" in ready.run_dir.report.read_text(encoding="utf-8")


@pytest.mark.parametrize("step", ["teardown", "collect"])
def test_what_cannot_be_stopped_breaks_the_harness_not_the_run(
    tmp_path: Path, log: list[str], step: str
) -> None:
    Recorded.fails[step] = OSError("no such luck")
    done = execute(tmp_path)
    assert log == WHOLE, "one step that fails keeps no other from being done"
    assert done.exit_code == 255
    assert done.judgement is not None
    assert done.judgement.system is Valid.VALID
    assert "no such luck" in str(done.crash)
    stored = load_results(done.run_dir)
    assert stored is not None
    assert stored["harness_traceback"].startswith("Traceback")
    assert "no such luck" in stored["harness_traceback"]
    assert done.run_dir.report.is_file()
    assert done.summary()["verdict"] == "unknown"


async def _cancel_in_teardown(ready: session.Session, tmp_path: Path, log: list[str]) -> None:
    main = asyncio.create_task(session._execute(ready, Silence(), tmp_path / "state"))
    await until(lambda: "teardown" in log)
    main.cancel()
    await asyncio.sleep(0)
    main.cancel()
    await main


def test_an_interrupt_in_the_teardown_waits_for_its_end(tmp_path: Path, log: list[str]) -> None:
    Recorded.slow_s = 0.2
    ready = prepared(tmp_path)
    asyncio.run(_cancel_in_teardown(ready, tmp_path, log))
    assert log == WHOLE
    assert ready.interrupted
    assert list((tmp_path / "state").iterdir()) == []


def test_an_interrupt_in_the_teardown_of_no_run_is_passed_on(
    tmp_path: Path, log: list[str]
) -> None:
    Recorded.slow_s = 0.2
    Recorded.fails["setup"] = asyncio.CancelledError()
    ready = prepared(tmp_path)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(_cancel_in_teardown(ready, tmp_path, log))
    assert log == WHOLE


# --------------------------------------------------------------------------- before and after


def test_a_given_schedule_is_played_instead_of_a_drawn_one(tmp_path: Path) -> None:
    faults = [Fault(4, "kill", 100, 200, {"target": "leader"}, 0.25)]
    ready = prepared(tmp_path, replace(SPEC, nemeses=("all",)), faults=faults)
    assert load(ready.run_dir.schedule) == faults
    assert ready.spec.nemeses == ("kill",)
    assert set(ready.plan.nemeses) == {"kill"}


class Shy(FakeNemesis):
    """Skips every fault that is not late."""

    schedule: ClassVar[Path | None] = None

    async def inject(self, fault: Fault, cluster: Cluster) -> Injection:
        self.outcome = "installed" if fault.late else "skipped"
        if fault.late and self.schedule is not None:
            assert fault in load(self.schedule), "it is saved before it is played"
        return await super().inject(fault, cluster)


def test_late_faults_join_the_stored_schedule(
    tmp_path: Path, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(nemeses._plugins, "shy", Shy)
    shy = Fault(0, "shy", 200, 100)
    ready = prepared(tmp_path, faults=[shy])
    monkeypatch.setattr(Shy, "schedule", ready.run_dir.schedule)
    done = session.execute(ready, state_dir=tmp_path / "state")
    first, late = load(ready.run_dir.schedule)
    assert (first, replace(late, at_ms=0)) == (shy, replace(shy, id=1, at_ms=0, late=True))
    assert (done.faults, done.exit_code, log) == ((first, late), 0, WHOLE)


def test_a_schedule_that_cannot_be_saved_breaks_the_harness_not_the_run(
    tmp_path: Path, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: RunDir, __: Sequence[Fault]) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setitem(nemeses._plugins, "shy", Shy)
    ready = prepared(tmp_path, faults=[Fault(0, "shy", 200, 100)])
    monkeypatch.setattr(RunDir, "write_schedule", full)
    done = session.execute(ready, state_dir=tmp_path / "state")
    assert (done.exit_code, log) == (255, WHOLE)
    assert "could not save the late faults" in str(done.crash)
    assert done.run_dir.report.is_file()


def test_families_become_names_in_the_stored_spec(tmp_path: Path) -> None:
    ready = prepared(tmp_path, replace(SPEC, nemeses=("partition",), time_limit_s=60.0))
    assert len(ready.spec.nemeses) > 1
    assert all(name.startswith("partition-") for name in ready.spec.nemeses)
    assert {fault.nemesis for fault in ready.faults} == set(ready.spec.nemeses)


@pytest.mark.parametrize("field", ["system", "env", "workload", "nemeses"])
def test_an_unknown_name_is_refused_before_a_folder_is_made(tmp_path: Path, field: str) -> None:
    wrong: Any = ("nonsense",) if field == "nemeses" else "nonsense"
    with pytest.raises(UsageError, match="nonsense"):
        prepared(tmp_path, replace(SPEC, **{field: wrong}))
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("system", "coverage", "harness_ok", "word"),
    [
        (Valid.VALID, Valid.VALID, True, Valid.VALID),
        (Valid.VALID, Valid.UNKNOWN, True, Valid.UNKNOWN),
        (Valid.UNKNOWN, Valid.VALID, True, Valid.UNKNOWN),
        (Valid.VALID, Valid.VALID, False, Valid.UNKNOWN),
        (Valid.INVALID, Valid.UNKNOWN, False, Valid.INVALID),
        (Valid.INVALID, Valid.VALID, True, Valid.INVALID),
    ],
)
def test_one_word_for_three_axes(
    system: Valid, coverage: Valid, harness_ok: bool, word: Valid
) -> None:
    assert session.verdict(Judgement(system, coverage, harness_ok)) is word


def test_a_run_that_was_never_judged_has_no_report(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="krucible check"):
        prepared(tmp_path).run_dir.write_report()


def test_an_interrupted_run_says_so(tmp_path: Path) -> None:
    ready = prepared(tmp_path)
    assert not ready.interrupted
    ready.result = RunResult(interrupted=True)
    assert ready.interrupted


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"workload": "brokers", "settings": {"krucible.kafka.image": "kafka"}},
            "--env local: system 'kafka' works only with docker",
        ),
        ({"workload": "brokes"}, "no workload is called 'brokes'"),
    ],
)
def test_a_system_may_say_what_it_goes_with(
    changed: dict[str, object], message: str, tmp_path: Path
) -> None:
    spec = replace(SPEC, **{"system": "kafka", "env": "local", "nemeses": ("none",), **changed})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=message):
        session.prepare(spec, Store(tmp_path))
    assert list(tmp_path.iterdir()) == [], "nothing was begun"
