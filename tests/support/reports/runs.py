"""Synthetic runs for the report's tests: everything a real run leaves behind, from one seed."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from harness.contracts.checker import RunData
from harness.contracts.nemesis import Fault
from harness.history.ops import NEMESIS, History, Op
from harness.spec import RunSpec

MS = 1_000_000
S = 1000 * MS
HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m\x00\u202e\ud800&\"'"
)

VALID_RESULT: dict[str, Any] = {
    "system": "valid",
    "coverage": "valid",
    "harness": "valid",
    "exit_code": 0,
    "results": [
        {
            "checker": "election-safety",
            "valid": "valid",
            "reason": None,
            "anomalies": [],
            "checked": {"S1 epochs": 14, "S2 votes": 61},
            "stats": {"elections": 14},
        },
        {
            "checker": "linearizable",
            "valid": "valid",
            "reason": None,
            "anomalies": [],
            "checked": {"keys": 8, "ops": 4210},
            "stats": {"longest search": 812},
        },
    ],
    "anomalies": [],
    "versions": {"krucible": "0.1.0", "python": "3.11.9"},
    "store": "store/kraft-register/20260101T000000-42",
}


def result(**changes: Any) -> dict[str, Any]:
    """A valid run's results with some keys changed."""
    return {**VALID_RESULT, **changes}


def broken_result(run: RunData) -> dict[str, Any]:
    """Results with two anomalies that point at real ops and events of ``run``."""
    clients = [op.index for op in run.history if op.process != NEMESIS]
    votes = [e for e in run.events["n2"] if e["t"] in ("role", "start")][-3:]
    vote = {
        "invariant": "S3",
        "message": "n2 granted its vote in epoch 4 to n1, and after its restart to n3",
        "ops": [],
        "events": votes,
        "details": {"node": "n2", "epoch": 4, "votes": ["n1", "n3"]},
        "time_ns": votes[-1]["rx_ns"],
    }
    lost = {
        "invariant": "S34",
        "message": "key k1: a read returned 17 after a later write of 18 had been acknowledged",
        "ops": clients[len(clients) // 2 : len(clients) // 2 + 6],
        "events": [],
        "details": {"key": "k1", "linearizable prefix": [1, 2, 3]},
        "time_ns": None,
    }
    results = [
        {**VALID_RESULT["results"][0], "valid": "invalid", "anomalies": [vote]},
        {**VALID_RESULT["results"][1], "valid": "invalid", "anomalies": [lost]},
        {
            "checker": "convergence",
            "valid": "unknown",
            "reason": "no quiet window after the heal",
            "anomalies": [],
            "checked": {},
            "stats": {},
        },
    ]
    return result(system="invalid", exit_code=1, results=results, anomalies=[vote, lost])


def with_known(results: dict[str, Any]) -> dict[str, Any]:
    """The same, and the first checker saw two things that the system is known to do."""
    asks = {
        "invariant": "L12",
        "finding": "docs/kafka.md, a Fetch without end",
        "red": False,
        "times": 1204,
        "message": "n2 sent the same Fetch of epoch 3 over 1000 times in a second, from 3.1 s on",
        "time_ns": 3 * S,
    }
    ends = {
        "invariant": "crash",
        "finding": "docs/findings.md, a removed voter's answer",
        "red": True,
        "times": 1,
        "message": "n1 printed the sign of a crash, fatal error, in line 7: not a voter",
        "time_ns": None,
    }
    first, *others = results["results"]
    return {**results, "results": [{**first, "known": [asks, ends]}, *others]}


def make_run(
    *, seed: int = 42, ops: int = 3000, voters: int = 3, observers: int = 2, faults: int = 6
) -> RunData:
    """A run of about ``ops / 100`` seconds: faults, a failover during each, late ops meanwhile."""
    names = [f"n{i + 1}" for i in range(voters + observers)]
    maker = _Maker(Random(seed), names[:voters], names[voters:], ops * 10 * MS)
    maker.schedule(faults)
    maker.cluster()
    maker.clients(ops)
    return maker.run(seed)


def empty_run() -> RunData:
    """A run that left nothing behind."""
    return RunData(spec=RunSpec(seed=7), history=History([]))


def hostile_run() -> RunData:
    """A run in which every field that a node or a history can fill holds an attack."""
    bad = HOSTILE
    rows: list[dict[str, Any]] = [
        {"time_ns": 1 * MS, "process": 0, "type": "invoke", "f": bad, "value": {bad: [bad]}},
        {"time_ns": 2 * MS, "process": 0, "type": "info", "f": bad, "value": bad, "error": bad},
        {"time_ns": 3 * MS, "process": bad, "type": "invoke", "f": "read", "value": float("nan")},
        {"time_ns": 4 * MS, "process": 5, "type": "ok", "f": "read", "value": b"\xff\xfe"},
        {"time_ns": 5 * MS, "process": NEMESIS, "type": "info", "f": "inject", "value": bad},
    ]
    about = {"id": bad, "nemesis": bad, "params": {bad: bad}}
    done = {**about, "outcome": "installed", "targets": [bad], "reason": bad, "evidence": [bad]}
    rows += [
        {"time_ns": 6 * MS, "process": NEMESIS, "type": "info", "f": "inject", "value": about},
        {"time_ns": 7 * MS, "process": NEMESIS, "type": "info", "f": "inject", "value": done},
        {"time_ns": 8 * MS, "process": NEMESIS, "type": "info", "f": "heal", "value": done},
    ]
    history = [Op(index=i, key=bad, node=bad, **row) for i, row in enumerate(rows)]
    events: tuple[dict[str, Any], ...] = (
        {"t": "start", "node": 1, "ep": bad, "rx_ns": 1 * MS, "leo": bad, "qs": {bad: bad}},
        {"t": "role", "node": 1, "ep": 1, "rx_ns": 2 * MS, "to": bad, "from": bad},
        {"t": "role", "node": 1, "ep": 2, "rx_ns": 3 * MS, "to": "leader", "why": bad},
        {"t": "hwm", "node": 1, "ep": 2, "rx_ns": 3 * MS, "v": bad},
        {"t": bad, "node": bad, "ep": [], "rx_ns": bad},
    )
    return RunData(
        spec=RunSpec(seed=1, system=bad, workload=bad, nemeses=(bad,), settings={bad: bad}),
        history=History(history),
        events={bad: events},
        output={bad: (bad, f"ERROR {bad}", *["fill"] * 50)},
        faults=(Fault(0, bad, 0, 10, {bad: bad}),),
        voters=(bad,),
    )


def hostile_result() -> dict[str, Any]:
    """Results in which every text is an attack."""
    anomaly = {
        "invariant": HOSTILE,
        "message": HOSTILE,
        "ops": [0, 1, 99, HOSTILE, None],
        "events": [{"t": HOSTILE, "node": HOSTILE, "ep": HOSTILE, "x": {HOSTILE: HOSTILE}}],
        "details": {HOSTILE: [HOSTILE, float("inf")], "nodes": [HOSTILE]},
        "time_ns": 2 * MS,
    }
    checker = {
        "checker": HOSTILE,
        "valid": HOSTILE,
        "reason": HOSTILE,
        "anomalies": [anomaly],
        "checked": {HOSTILE: HOSTILE},
        "stats": {HOSTILE: [HOSTILE]},
    }
    return {
        "system": "invalid",
        "coverage": {"valid": "unknown", "reasons": [HOSTILE]},
        "harness": HOSTILE,
        "results": [checker],
        "anomalies": [anomaly],
        "versions": {HOSTILE: HOSTILE},
        "store": HOSTILE,
    }


@dataclass
class _Maker:
    rng: Random
    voters: list[str]
    observers: list[str]
    end_ns: int
    windows: list[tuple[Fault, int, int]] = field(default_factory=list)
    timed: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    events: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def schedule(self, count: int) -> None:
        kinds = ("kill", "partition-leader", "pause", "clock-jump", "slow-fsync")
        for at in range(count):
            begin = int(self.end_ns * (at + 0.5) / (count + 1))
            length = int(self.end_ns / (count + 1) * self.rng.uniform(0.2, 0.8))
            nemesis = kinds[at % len(kinds)]
            fault = Fault(at, nemesis, begin // MS, length // MS, {"targets": "leader"})
            self.windows.append((fault, begin, begin + length))
            self._fault_ops(fault, begin, begin + length)

    def _fault_ops(self, fault: Fault, begin: int, end: int) -> None:
        about = fault.to_json()
        target = self.voters[fault.id % len(self.voters)]
        if fault.nemesis == "clock-jump":
            end_value = {**about, "outcome": "skipped", "targets": [], "evidence": []}
            end_value["reason"] = "the environment cannot set a clock"
            steps = [("inject", begin, about), ("inject", begin + MS, end_value)]
        else:
            evidence = [{"node": target, "state": "gone", "pid": 4000 + fault.id}]
            done = {**about, "outcome": "installed", "targets": [target], "evidence": evidence}
            healed = {**about, "evidence": {"node": target, "state": "S"}}
            steps = [
                ("inject", begin, about),
                ("inject", begin + 20 * MS, done),
                ("heal", end, about),
                ("heal", end + 30 * MS, healed),
            ]
        for f, at, value in steps:
            row = {"process": NEMESIS, "type": "info", "f": f, "value": value}
            self.timed.append((at, row))

    def cluster(self) -> None:
        everyone = [*self.voters, *self.observers]
        self.events = {name: [] for name in everyone}
        for name in everyone:
            self._event(name, 20 * MS, "start", 0, leo=0, last_ep=0, log_start=0)
            self._event(name, 60 * MS, "role", 0, to="unattached", leader=None)
        moments = [100 * MS, *(begin for fault, begin, _ in self.windows if fault.id % 2 == 0)]
        for epoch, at in enumerate(moments, start=1):
            self._failover(epoch, at, self.voters[(epoch - 1) % len(self.voters)])
        self._watermarks(everyone)
        for fault, begin, end in self.windows:
            if fault.nemesis == "kill":
                self._silence(self.voters[fault.id % len(self.voters)], begin, end)

    def _failover(self, epoch: int, at: int, winner: str) -> None:
        id_ = int(winner[1:])
        self._event(winner, at + 5 * MS, "role", epoch - 1, to="prospective", leader=None)
        self._event(winner, at + 90 * MS, "role", epoch, to="candidate", leader=None)
        self._event(winner, at + 180 * MS, "elected", epoch, grants=[1, 2], voters=[1, 2, 3], es=0)
        self._event(winner, at + 181 * MS, "role", epoch, to="leader", leader=id_)
        for name in (*self.voters, *self.observers):
            if name != winner:
                later = at + self.rng.randint(185, 260) * MS
                self._event(name, later, "role", epoch, to="follower", leader=id_)

    def _silence(self, name: str, begin: int, end: int) -> None:
        kept = [e for e in self.events[name] if not begin < e["rx_ns"] < end + 100 * MS]
        self.events[name] = kept
        self._event(name, end + 100 * MS, "start", 0, leo=12, last_ep=1, log_start=0)
        self._event(name, end + 180 * MS, "trunc", 2, to=11, was=12, why="diverging")
        self._event(name, end + 200 * MS, "role", 2, to="follower", leader=1)

    def _watermarks(self, names: list[str]) -> None:
        stalls = [(b, b + 180 * MS) for f, b, _ in self.windows if f.id % 2 == 0]
        value = 0
        for at in range(300 * MS, self.end_ns, 40 * MS):
            if any(begin < at < end for begin, end in stalls):
                continue
            value += self.rng.randint(1, 5)
            for lag, name in enumerate(names):
                self._event(name, at + lag * 3 * MS, "hwm", 1, v=value, **{"as": "follower"})

    def _event(self, name: str, at: int, kind: str, epoch: int, **fields: Any) -> None:
        common = {"ts": at + 5, "seq": len(self.events[name]) + 1, "node": int(name[1:])}
        inc = {"dir": "ab" * 16, "inc": 1, "ep": epoch, "t": kind, "rx_ns": at}
        self.events[name].append({**common, **inc, **fields})

    def clients(self, count: int) -> None:
        width, per = 10, count // 10
        for worker in range(width):
            process, at = worker, self.rng.randrange(200 * MS)
            for _ in range(per):
                at += int(self.rng.expovariate(1 / (self.end_ns / per * 0.75)))
                outcome, latency = self._answer(at)
                self._client_op(process, at, outcome, latency)
                at += latency
                if outcome == "info":
                    process += width
                if at > self.end_ns:
                    break

    def _answer(self, at: int) -> tuple[str, int]:
        hurt = any(begin < at < end for f, begin, end in self.windows if f.nemesis != "clock-jump")
        base = self.rng.lognormvariate(1.3, 0.5)
        if not hurt:
            return ("fail" if self.rng.random() < 0.004 else "ok"), int(base * MS)
        draw = self.rng.random()
        if draw < 0.06:
            return "info", int(self.rng.uniform(300, 600) * MS)
        return ("fail" if draw < 0.15 else "ok"), int(base * self.rng.uniform(1, 25) * MS)

    def _client_op(self, process: int, at: int, outcome: str, latency: int) -> None:
        write = self.rng.random() < 0.5
        value = self.rng.randrange(100_000)
        common = {
            "process": process,
            "f": "write" if write else "read",
            "key": f"k{self.rng.randrange(8)}",
            "node": self.rng.choice(self.voters),
        }
        error = {"fail": "NOT_CONTROLLER", "info": "timed out after 500 ms"}.get(outcome)
        seen = value if write or outcome == "ok" else None
        invoked = value if write else None
        self.timed.append((at, {**common, "type": "invoke", "value": invoked}))
        done = {**common, "type": outcome, "value": seen, "error": error}
        self.timed.append((at + latency, done))

    def run(self, seed: int) -> RunData:
        self.timed.sort(key=lambda item: item[0])
        history = [Op(index=i, time_ns=at, **row) for i, (at, row) in enumerate(self.timed)]
        for events in self.events.values():
            events.sort(key=lambda event: event["rx_ns"])
        lines = tuple(f"{i:04d} INFO fetch answered" for i in range(120))
        output = dict.fromkeys(self.events, (*lines[:9], "0009 ERROR lost the leader", *lines))
        return RunData(
            spec=RunSpec(
                seed=seed, nemeses=("kill", "partition"), time_limit_s=self.end_ns / S, mutant=None
            ),
            history=History(history),
            events={name: tuple(events) for name, events in self.events.items()},
            output=output,
            faults=tuple(fault for fault, _, _ in self.windows),
            voters=tuple(self.voters),
            observers=tuple(self.observers),
        )
