"""The histories that are the worst we know to judge, and what judging one takes.

    python -m tests.support.histories.worst NAME [--ops N] [--seed 1] [--time S] [--memory MIB]

judges one within its limits, in this process, and prints JSON: the verdict, why it is open, the CPU
time that it took, and the most memory that this process held, history and all, or its largest
child, by the kernel's count.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from checkers.linearizable import check_history
from checkers.models.topics import check_topics
from checkers.partitions.log import check_log
from checkers.transactions.cycles import check_transactions
from harness.history.ops import History, Op
from harness.verdict import CheckResult
from tests.support.places import ROOT

Answer = Callable[[Random, Any], Any]


@dataclass(frozen=True, slots=True)
class Worst:
    """A history: so many ops, ``in_flight`` at a time, a share of them of unknown outcome."""

    model: str
    ops: int
    in_flight: int
    unknown: float
    draw: Callable[[Random, int], tuple[str, Any, Any]]  # (f, argument, result)
    truth: Callable[[], Callable[[str, Any], Any]] | None = None  # a real one to ask for results


def registers(values: int) -> Callable[[Random, int], tuple[str, Any, Any]]:
    """Reads of anything, writes, and compare-and-set."""

    def draw(rng: Random, _: int) -> tuple[str, Any, Any]:
        value = rng.randrange(values)
        match rng.randrange(3):
            case 0:
                return "read", None, value
            case 1:
                return "write", value, value
            case _:
                pair = [value, rng.randrange(values)]
                return "cas", pair, pair

    return draw


def plain(values: int) -> Callable[[Random, int], tuple[str, Any, Any]]:
    """Reads of anything, and writes."""

    def draw(rng: Random, _: int) -> tuple[str, Any, Any]:
        value = rng.randrange(values)
        return ("read", None, value) if rng.random() < 0.4 else ("write", value, value)

    return draw


def texts(rng: Random, at: int) -> tuple[str, Any, Any]:
    """Appends of letters, gets of what cannot be told early."""
    letter = rng.choice("ab")
    if rng.random() < 0.03 and at > 100:
        return "get", None, "".join(rng.choice("ab") for _ in range(at // 2))
    return "append", letter, letter


def sets(rng: Random, _: int) -> tuple[str, Any, Any]:
    """Adds and removes of a few elements, reads of some of them."""
    f = rng.choice(("add", "remove", "read"))
    seen = [n for n in range(12) if rng.random() < 0.5]
    return (f, None, seen) if f == "read" else (f, rng.randrange(12), rng.randrange(12))


def steps(rng: Random, _: int) -> tuple[str, Any, Any]:
    """Transactions of a multi-register."""
    mops = [
        [rng.choice("rw"), key, rng.randrange(3)] for key in rng.sample("uvwxyz", rng.randint(1, 3))
    ]
    return "txn", [[f, k, None if f == "r" else v] for f, k, v in mops], mops


def elements(rng: Random, _: int) -> tuple[str, Any, Any]:
    """Adds, removes and reads of a set of many."""
    f = rng.choice(("add", "remove", "read"))
    return (f, None, None) if f == "read" else (f, rng.randrange(60), None)


def honest_set() -> Callable[[str, Any], Any]:
    """A set that does what it is asked."""
    held: set[int] = set()

    def do(f: str, argument: Any) -> Any:
        if f == "read":
            return sorted(held)
        (held.add if f == "add" else held.discard)(argument)
        return argument

    return do


def many_steps(rng: Random, _: int) -> tuple[str, Any, Any]:
    """Transactions of two registers of six."""
    mops = [[rng.choice("rw"), key, rng.randrange(40)] for key in rng.sample("uvwxyz", 2)]
    return "txn", [[f, k, None if f == "r" else v] for f, k, v in mops], None


def honest_registers() -> Callable[[str, Any], Any]:
    """Registers that do what they are asked."""
    held: dict[str, int] = {}

    def do(_: str, mops: Any) -> Any:
        held.update((key, value) for f, key, value in mops if f == "w")
        return [[f, key, held.get(key)] for f, key, _ in mops]

    return do


def locks(rng: Random, _: int) -> tuple[str, Any, Any]:
    """Many clients at one mutex."""
    return rng.choice(("acquire", "release")), None, None


def names(rng: Random, at: int) -> tuple[str, Any, Any]:
    """Creates, deletes and looks at one topic."""
    match rng.randrange(3):
        case 0:
            asked = {"partitions": 1, "configs": {}}
            return "create", asked, {**asked, "id": f"id{at}"}
        case 1:
            return "delete", None, None
        case _:
            return "describe", None, {"id": f"id{rng.randrange(at + 1)}", "partitions": 1}


def lying_lists(rng: Random, at: int) -> tuple[str, Any, Any]:
    """Transactions that read lists of long ago: one component of everything."""
    mops: list[list[Any]] = []
    for key in rng.sample(range(at // 60, at // 60 + 8), rng.randint(1, 4)):
        if rng.random() < 0.5:
            mops.append(["append", key, at])
        else:
            mops.append(["r", key, []])
    return "txn", mops, mops


def lost_updates(_: Random, at: int) -> tuple[str, Any, Any]:
    """Everybody reads the empty list and appends to it."""
    mops = [["r", "x", []], ["append", "x", at]]
    return "txn", mops, mops


def skipping(rng: Random, at: int) -> tuple[str, Any, Any]:
    """Sends, and polls that jump about."""
    if rng.random() < 0.5:
        return "send", [["send", "x", at]], [["send", "x", [at, at]]]
    offsets = [rng.randrange(at + 1) for _ in range(3)]
    return "poll", [["poll"]], [["poll", {"x": [[offset, offset] for offset in offsets]}]]


WORST: dict[str, Worst] = {
    "register, 40 in flight": Worst("register", 20_000, 40, 0.0, plain(5)),
    "register, all unknown": Worst("register", 20_000, 20, 0.5, plain(3)),
    "cas, 30 in flight": Worst("cas-register", 20_000, 30, 0.1, registers(4)),
    "kv-append": Worst("kv-append", 10_000, 30, 0.1, texts),
    "set": Worst("set", 20_000, 30, 0.1, sets),
    "multi-register": Worst("multi-register", 20_000, 25, 0.1, steps),
    # nothing is wrong with these, but what is open for ever may happen at any time: tables grow
    "set, open adds": Worst("set", 3_000, 40, 0.5, elements, honest_set),
    "multi-register, open writes": Worst(
        "multi-register", 3_000, 30, 0.3, many_steps, honest_registers
    ),
    "mutex": Worst("mutex", 20_000, 40, 0.3, locks),
    "topics": Worst("topics", 20_000, 30, 0.2, names),
    "list-append, lies": Worst("list-append", 400_000, 20, 0.05, lying_lists),
    "list-append, lost updates": Worst("list-append", 400_000, 20, 0.0, lost_updates),
    "kafka": Worst("kafka", 300_000, 20, 0.05, skipping),
}


def history(worst: Worst, seed: int) -> History:
    """Its ops in real time; a process whose outcome is unknown is replaced."""
    rng = Random(seed)
    ops: list[Op] = []
    busy: list[tuple[int, str, Any, Any]] = []
    begun = 0
    do = worst.truth() if worst.truth is not None else None

    def note(process: int, type_: Any, f: str, value: Any) -> None:
        ops.append(Op(len(ops), len(ops), process, type_, f, value, key="x"))

    while begun < worst.ops or busy:
        if begun < worst.ops and len(busy) < worst.in_flight:
            f, argument, result = worst.draw(rng, begun)
            note(begun, "invoke", f, argument)
            busy.append((begun, f, argument, result))
            begun += 1
            continue
        process, f, argument, result = busy.pop(rng.randrange(len(busy)))
        if do is not None and result is None:  # now it takes effect; that is told later, if ever
            result = do(f, argument)
            if rng.random() >= worst.unknown:
                busy.append((process, f, argument, result))
            else:
                note(process, "info", f, argument)
            continue
        if do is None and rng.random() < worst.unknown:
            note(process, "info", f, argument)
        else:
            note(process, "ok", f, result)
    return History(ops)


def judge(model: str, ops: History, time_s: float, memory_mib: int) -> CheckResult:
    """As ``krucible check`` would."""
    limits: dict[str, Any] = {"time_limit_s": time_s, "memory_limit_bytes": memory_mib << 20}
    match model:
        case "list-append":
            return check_transactions(ops, **limits)
        case "kafka":
            return check_log(ops, **limits)
        case "topics":
            return check_topics(ops, check_history, **limits)
        case _:
            return check_history(ops, model, **limits)


@dataclass(frozen=True, slots=True)
class Took:
    """What judging a history came to and took."""

    verdict: str
    reason: str | None
    cpu_s: float
    peak_mib: float


def in_a_process(name: str, ops: int, *, time_s: float, memory_mib: int, seed: int = 1) -> Took:
    """Judge the history of that name, made of so many ops, in a process of its own."""
    options = ("--ops", ops, "--seed", seed, "--time", time_s, "--memory", memory_mib)
    argv = [sys.executable, "-m", __name__, name, *map(str, options)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{name}: {done.returncode}: {done.stderr[-2_000:]}"
    return Took(**json.loads(done.stdout))


def here(name: str, ops: int, seed: int, time_s: float, memory_mib: int) -> Took:
    """Judge it in this process."""
    made = history(replace(WORST[name], ops=ops), seed)
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    begun = time.process_time()
    result = judge(WORST[name].model, made, time_s, memory_mib)
    cpu_s = time.process_time() - begun
    status = Path("/proc/self/status").read_text().splitlines()
    own_kib = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s += children.ru_utime + children.ru_stime
    return Took(str(result.valid), result.reason, cpu_s, max(own_kib, children.ru_maxrss) / 1024)


def main() -> None:
    """Judge one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("name", choices=WORST)
    parser.add_argument("--ops", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--time", type=float, default=60.0, help="seconds")
    parser.add_argument("--memory", type=int, default=4_096, help="MiB")
    options = parser.parse_args()
    ops = options.ops or WORST[options.name].ops
    took = here(options.name, ops, options.seed, options.time, options.memory)
    print(json.dumps(asdict(took)))  # noqa: T201 - what people and tests read


if __name__ == "__main__":
    main()
