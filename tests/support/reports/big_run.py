"""A big run in a store: history, event traces, faults and logs in the formats of a real one.

It is drawn from a seed and no cluster lives behind it, but it looks like one: clients that wait
for each answer, nodes that replicate in batches, a failover in every other fault, slow and lost
ops meanwhile, a snapshot now and then. Times are in ns on the harness's clock.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from harness.contracts.nemesis import Fault
from harness.history.ops import NEMESIS, HistoryWriter, Op
from harness.spec import RunSpec
from harness.store.folder import RunDir, Store

MS = 1_000_000
S = 1000 * MS
RATE_HZ = 1000
WORKERS = 20
KEYS = 50
VOTERS = ("n1", "n2", "n3")
NODES = (*VOTERS, "n4", "n5")
FAULT_EVERY_NS = 10 * S
FAULT_NS = 3 * S
BATCH_NS = 10 * MS  # a batch of records is appended, flushed and committed so often
SNAPSHOT_EVERY = 1000  # batches
FLUSH_EVERY = 1000  # ops in one write
NEMESES = ("kill", "partition-isolate-leader", "pause", "clock-jump", "disk-slow-fsync")


def make(root: Path, *, ops: int, seed: int = 1) -> RunDir:
    """Write a judged run of ``ops`` client ops into the store at ``root``; returns its folder."""
    rng = Random(seed)
    end_ns = max(S, ops * S // RATE_HZ)
    spec = RunSpec(
        seed=seed,
        voters=3,
        observers=2,
        nemeses=NEMESES,
        time_limit_s=end_ns / S,
        rate_hz=RATE_HZ,
        concurrency=WORKERS,
    )
    run = Store(root).new_run(spec)
    faults = _faults(end_ns)
    run.write_schedule(faults)
    written = _write_history(run, rng, faults, ops)
    for at, name in enumerate(NODES):
        with run.events(name).open("wb") as file:
            encoder = msgspec.json.Encoder()
            for event in _events(name, at, faults, end_ns):
                file.write(encoder.encode(event) + b"\n")
        run.log(name).write_text("".join(f"{i:06d} INFO batch\n" for i in range(2000)))
    run.write_results(_results(run, written))
    return run


def _faults(end_ns: int) -> list[Fault]:
    starts = range(FAULT_EVERY_NS // 2, end_ns - FAULT_NS, FAULT_EVERY_NS)
    return [
        Fault(n, NEMESES[n % len(NEMESES)], at // MS, FAULT_NS // MS, {"target": "leader"}, 0.5)
        for n, at in enumerate(starts)
    ]


def _leader(epoch: int) -> str:
    return VOTERS[epoch % len(VOTERS)]


def _write_history(run: RunDir, rng: Random, faults: list[Fault], ops: int) -> int:
    """Returns the index of the last op."""
    writer = HistoryWriter(run.history)
    index = -1
    for index, (time_ns, fields) in enumerate(
        heapq.merge(_client_ops(rng, faults, ops), _nemesis_ops(faults), key=lambda row: row[0])
    ):
        writer.hold(Op(index=index, time_ns=time_ns, **fields))
        if index % FLUSH_EVERY == 0:
            writer.flush()
    writer.close()
    return index


Row = tuple[int, dict[str, Any]]


def _client_ops(rng: Random, faults: list[Fault], ops: int) -> Iterator[Row]:
    """Every worker invokes, waits, and invokes again; in order of time."""
    pace_ns = WORKERS * S // RATE_HZ
    due: list[tuple[int, int, int, dict[str, Any] | None]] = [
        (rng.randrange(pace_ns), worker, worker, None) for worker in range(WORKERS)
    ]
    heapq.heapify(due)
    left, value = ops, 0
    while due:
        at, worker, process, done = heapq.heappop(due)
        if done is not None:
            yield at, done
            process += WORKERS if done["type"] == "info" else 0
            heapq.heappush(due, (at + rng.randrange(pace_ns), worker, process, None))
        elif left:
            left -= 1
            value += 1
            common = {
                "process": process,
                "f": "write" if value % 2 else "read",
                "key": f"r{rng.randrange(KEYS)}",
                "node": rng.choice(VOTERS),
            }
            yield at, {**common, "type": "invoke", "value": value if value % 2 else None}
            kind, latency_ns = _answer(rng, faults, at)
            error = {"fail": "not-controller", "info": "timeout"}.get(kind)
            answer = {**common, "type": kind, "value": value, "error": error}
            heapq.heappush(due, (at + latency_ns, worker, process, answer))


def _answer(rng: Random, faults: list[Fault], at: int) -> tuple[str, int]:
    number = (at - FAULT_EVERY_NS // 2) // FAULT_EVERY_NS
    hurt = 0 <= number < len(faults) and at - faults[number].at_ms * MS < FAULT_NS
    base = int(rng.lognormvariate(1.3, 0.5) * MS)
    if not hurt:
        return ("fail" if rng.random() < 0.002 else "ok"), base
    draw = rng.random()
    if draw < 0.03:
        return "info", int(rng.uniform(300, 600) * MS)
    return ("fail" if draw < 0.1 else "ok"), base * rng.randint(1, 20)


def _nemesis_ops(faults: list[Fault]) -> Iterator[Row]:
    for number, fault in enumerate(faults):
        value, leader = fault.to_json(), _leader(number)
        evidence = [{"saw": "targets", "target": "leader", "nodes": [leader], "leader": leader}]
        done = {"outcome": "installed", "targets": [leader], "reason": None, "evidence": evidence}
        begin, end = fault.at_ms * MS, fault.at_ms * MS + FAULT_NS
        steps = (
            ("inject", begin, value),
            ("inject", begin + 20 * MS, {**value, **done}),
            ("heal", end, value),
            ("heal", end + 30 * MS, {**value, "evidence": {"node": leader, "state": "S"}}),
        )
        for f, at, shown in steps:
            yield at, {"process": NEMESIS, "type": "info", "f": f, "value": shown}


def _events(name: str, at: int, faults: list[Fault], end_ns: int) -> Iterator[dict[str, Any]]:
    """A node's trace: roles at each failover, and a batch every 10 ms with its commit."""
    seq = 0

    def event(time_ns: int, kind: str, epoch: int, **fields: Any) -> dict[str, Any]:
        nonlocal seq
        seq += 1
        common = {"rx_ns": time_ns, "ts": time_ns + 5, "seq": seq, "node": int(name[1:])}
        return {**common, "dir": "ab" * 16, "inc": 1, "ep": epoch, "t": kind, **fields}

    yield event(MS, "start", 0, leo=0, last_ep=0, log_start=0)
    moments = [2 * MS, *(fault.at_ms * MS for fault in faults[::2])]
    offset = batches = 0
    for epoch, (begin, until) in enumerate(zip(moments, [*moments[1:], end_ns], strict=True)):
        leads = name == _leader(epoch)
        if leads:
            yield event(begin + 90 * MS, "role", epoch, to="candidate", leader=None)
            yield event(begin + 180 * MS, "elected", epoch, grants=[1, 2], voters=[1, 2, 3], es=0)
        role = "leader" if leads else "follower"
        leader = int(_leader(epoch)[1:])
        yield event(begin + (181 + at * 9) * MS, "role", epoch, to=role, leader=leader)
        for now in range(begin + 300 * MS + at * MS, until, BATCH_NS):
            base, offset = offset, offset + 5
            batches += 1
            yield event(now, "fetch_tx", epoch, off=base, last_ep=epoch, to=leader)
            batch = {"base": base, "last": offset - 1, "bep": epoch, "h": base * 7, "ctl": False}
            yield event(now + MS, "append", epoch, **batch, src=role)
            yield event(now + 2 * MS, "flush", epoch, upto=offset)
            yield event(now + 3 * MS, "hwm", epoch, **{"v": offset, "as": role})
            yield event(now + 3 * MS, "apply", epoch, off=offset, n=1, st="0" * 16)
            if batches % SNAPSHOT_EVERY == 0:
                snapshot = {"id": [offset, epoch], "size": 10 * offset, "sha": "cd" * 32}
                yield event(now + 4 * MS, "snap", epoch, op="freeze", **snapshot)


def _results(run: RunDir, last: int) -> dict[str, Any]:
    anomaly = {
        "invariant": "S34",
        "message": "key r1: a read returned an old value",
        "ops": list(range(last // 2, last // 2 + 8)),
        "events": [],
        "details": {"key": "r1"},
        "time_ns": None,
    }
    checker: dict[str, Any] = {
        "checker": "linearizable",
        "valid": "invalid",
        "reason": None,
        "stats": {},
    }
    return {
        "system": "invalid",
        "coverage": "valid",
        "harness": "ok",
        "results": [{**checker, "anomalies": [anomaly], "checked": {"ops": last // 2}}],
        "anomalies": [anomaly],
        "versions": {},
        "store": run.path.name,
    }
