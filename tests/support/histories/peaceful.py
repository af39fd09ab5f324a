"""Makes histories of a cluster that recovers and then is left in peace, event by event."""

from __future__ import annotations

from typing import Any

from harness.contracts.checker import RunData
from harness.history.ops import NEMESIS, History, Op, OpType
from harness.spec import RunSpec

S = 1_000_000_000


class PeacefulRun:
    """Three voters and a broker that recover at 10 s, and have 5 s of peace from 11 s on."""

    def __init__(self) -> None:
        self.recovered = True
        self.down: dict[str, str] = {}  # by the op of the recovery
        self.events: dict[str, list[dict[str, Any]]] = {f"n{i}": [] for i in range(1, 5)}
        self.windows: dict[str, tuple[int, int]] = {"recovery": (9, 10), "settle": (11, 16)}
        self.ops: list[Op] = []
        for node in self.events:
            self.tell(node, 0, "start")
            leads = "leader" if node == "n1" else "follower"
            self.tell(node, 1, "role", to=leads, leader=1, why="test")
            self.tell(node, 12, "hwm", v=20)
        self.tell("n4", 12, "hb", err=0, fenced=False)

    def tell(self, node: str, at_s: float, type_: str, ep: int = 3, **fields: Any) -> None:
        who = {"node": int(node[1:]), "inc": 1}
        event = {"t": type_, **who, "ep": ep, "rx_ns": round(at_s * S), **fields}
        self.events[node] = sorted([*self.events[node], event], key=lambda e: e["rx_ns"])

    def op(self, at_s: float, type_: OpType, process: int | str = 0, **fields: Any) -> None:
        """Of a client, or of the nemesis."""
        self.ops.append(Op(0, round(at_s * S), process, type_, **fields))

    def fault(self, nemesis: str, begin_s: float, end_s: float, *targets: str) -> None:
        """A fault begins and is healed."""
        for at_s, f in ((begin_s, "inject"), (end_s, "heal")):
            value = {"id": begin_s, "nemesis": nemesis}
            self.op(at_s, "info", NEMESIS, f=f, value=value)
            result: dict[str, Any] = {"evidence": {}}
            if f == "inject":
                result = {"outcome": "installed", "targets": list(targets)}
            self.op(at_s + 0.1, "info", NEMESIS, f=f, value={**value, **result})

    def data(self) -> RunData:
        ops = list(self.ops)
        for f, (begin_s, end_s) in self.windows.items():
            end: dict[str, Any] = {"seconds": end_s - begin_s}
            if f == "recovery":
                end = {"recovered": self.recovered, "elapsed_ms": 1000}
                end |= {"down": self.down} if self.down else {}
            ops.append(Op(len(ops), begin_s * S, NEMESIS, "info", f, {}))
            ops.append(Op(len(ops), end_s * S, NEMESIS, "info", f, end))
        ops.sort(key=lambda op: op.time_ns)
        return RunData(
            RunSpec(1),
            History(op.with_(index=i) for i, op in enumerate(ops)),
            {node: tuple(events) for node, events in self.events.items()},
            voters=("n1", "n2", "n3"),
            observers=("n4",),
        )
