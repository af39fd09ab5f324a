"""Random histories of sends and polls, many at a time, some of whose answers are wrong."""

from __future__ import annotations

from random import Random
from typing import Any

from harness.history.ops import History, Op

KEYS = ("x", "y")


class _Story:
    """A cluster of two partitions that now and then answers what is not so."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._lies = rng.choice((0.0, 0.05, 0.2))
        self._logs: dict[str, list[int]] = {key: [] for key in KEYS}
        self._next: dict[tuple[int, str], int] = {}
        self._open: dict[int, tuple[str, list[Any]]] = {}
        self._sent = 0
        self._fresh = 3  # a process whose op has an unknown outcome never acts again
        self._crew = [0, 1, 2]
        self.ops: list[Op] = []

    def step(self) -> None:
        """Something begins or ends."""
        process = self._rng.choice(self._crew)
        if process not in self._open:
            self._begin(process)
        else:
            self._end(process)

    def _begin(self, process: int) -> None:
        rng = self._rng
        f = rng.choices(("send", "poll", "txn", "assign"), (4, 5, 2, 1))[0]
        if f == "assign":
            keys = rng.sample(KEYS, rng.randint(1, 2))
            for key in set(KEYS) - set(keys):
                self._next.pop((process, key), None)
            self._note(process, "invoke", f, keys)
            self._note(process, "ok", f, keys)
            return
        mops: list[Any] = []
        for _ in range(rng.randint(1, 2)):
            if f == "poll" or (f == "txn" and rng.random() < 0.5):
                mops.append(["poll"])
            else:
                self._sent += 1
                mops.append(["send", rng.choice(KEYS), self._sent])
        self._open[process] = f, mops
        self._note(process, "invoke", f, mops)

    def _end(self, process: int) -> None:
        rng = self._rng
        f, mops = self._open.pop(process)
        outcome = rng.choices(("ok", "info", "fail"), (8, 2, 1))[0]
        took_effect = (
            rng.random() < {"ok": 1 - self._lies / 3, "info": 0.5, "fail": self._lies}[outcome]
        )
        told = [
            self._send(mop[1], mop[2], took_effect) if mop[0] == "send" else self._poll(process)
            for mop in mops
        ]
        if outcome == "info":
            self._crew[self._crew.index(process)] = self._fresh
            self._fresh += 1
            if rng.random() < 0.5:
                return  # open for ever
        polled = f != "send" and outcome == "info" and rng.random() < 0.3
        self._note(process, outcome, f, told if outcome == "ok" or polled else mops)

    def _send(self, key: str, value: int, took_effect: bool) -> list[Any]:
        log, rng = self._logs[key], self._rng
        offset = len(log)
        if took_effect:
            log.append(value)
            if rng.random() < self._lies:
                log.insert(rng.randint(0, len(log)), value)
        if rng.random() < self._lies / 2:
            offset += rng.choice((-1, 1))
        return ["send", key, [None if rng.random() < 0.2 else max(0, offset), value]]

    def _poll(self, process: int) -> list[Any]:
        rng, seen = self._rng, dict[str, list[Any]]()
        for key in rng.sample(KEYS, rng.randint(1, 2)):
            log = self._logs[key]
            start = self._next.get((process, key), 0)
            if rng.random() < self._lies:
                start = rng.randint(0, len(log))
            stop = rng.randint(min(start, len(log)), len(log))
            records = [[offset, log[offset]] for offset in range(start, stop)]
            if records and rng.random() < self._lies:
                records.pop(rng.randrange(len(records)))
            if records and rng.random() < self._lies:
                rng.shuffle(records)
            if records and rng.random() < self._lies / 4:
                records[-1][1] += 1_000
            if records:
                self._next[process, key] = records[-1][0] + 1
            seen[key] = records
        return ["poll", seen]

    def _note(self, process: int, type_: Any, f: str, value: list[Any]) -> None:
        self.ops.append(Op(len(self.ops), len(self.ops), process, type_, f, value))


def random_partitions(rng: Random, steps: int) -> History:
    """A history of that many beginnings and ends."""
    story = _Story(rng)
    for _ in range(steps):
        story.step()
    return History(story.ops)
