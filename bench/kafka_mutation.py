"""Measure how many machine-made bugs of Apache Kafka the swarm catches in the simulator.

    python bench/kafka_mutation.py [--version 4.4.0] [--draw 100] [--seed 1] [--jobs 1] [--out FILE]
                                   [--only TEXT] [--workload NAME]

Small changes of Kafka's compiled classes (raft client, controller, image, snapshots) are drawn
(``bench/support/java``: conditions, bounds, results, arithmetic, dropped effects) in lines that the
first seeds come to, each in a process and a JVM of its own. A changed Kafka must pass 10 s without
faults; then the generic swarm has ``--budget`` seconds of CPU time to find the change. What Kafka
is known to break does not count: a seed in which a finding makes the run invalid finds nothing
else. Outcomes that count: caught, with the invariant and the seed; survived; hung (a seed did not
end); broken (the harness failed). Not counted: dead (the run without faults failed), unreached
(the place was not come to) and same (all bytes of the first seeds are the unchanged Kafka's). A
line of JSON for each goes to ``--out``; a file that is there already is continued. What was not
caught is listed, to be read: each is equivalent, or a hole. ``--only`` draws from the changes that
are told with a text, such as "ScramControlManager", and ``--workload`` plays one workload in all
seeds: they tell whether a hole is closed, and give no figure of detection.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final

from bench.support import hunts
from bench.support.executed import FOLDERS, OF_BROKERS, OF_KAFKA, executed, jars_of, lines
from bench.support.figures import say
from harness.processes.outlook import expect
from harness.sessions.plan import Plan
from harness.sessions.simulated import SimRun, simulate
from harness.sessions.swarm import draw
from harness.spec import SIM, RunSpec
from harness.systems.kafka.agent import BYTE_BUDDY
from harness.systems.kafka.compiled import compiled
from harness.systems.kafka.distribution import KafkaDist, fetch_classes, fetch_jars
from harness.systems.kafka.known import known_of
from harness.systems.kafka.releases import KNOWN, VERSION, Release
from harness.systems.kafka.simulated import jvm
from harness.verdict import Anomaly, Valid

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCES: Final = ROOT / "bench" / "support" / "java"
MUTATOR: Final = "krucible.Mutator"
MARK: Final = "krucible$reached"
COUNTED: Final = ("caught", "survived", "hung", "broken")
OTHERS: Final = ("dead", "unreached", "same")
COMPARED: Final = 8  # seeds whose bytes tell whether a change does anything
HUNG_AFTER_S: Final = 90  # of CPU beyond the budget
MANY: Final = 40  # seeds are expected, so that the JVM compiles well
# What no finding names yet, though it is nobody's mutation: see docs/kafka.md.
UNDECIDED: Final = frozenset({"S22"})
OPERATORS: Final = ("arithmetic", "bound", "condition", "effect", "result")


@dataclass(frozen=True, slots=True)
class Mutation:
    """One change: the class and its jar, where in it, and what is changed."""

    jar: str
    name: str  # of the class, as in a/b/C
    method: str
    line: int
    operator: str
    number: int  # of the change, in its class
    text: str

    def __str__(self) -> str:
        place = f"{self.name.removeprefix(OF_KAFKA)}.{self.method}:{self.line}"
        return f"{place} {self.operator}: {self.text}"


# ------------------------------------------------------------------ the changes


def mutator(dist: KafkaDist) -> list[str]:
    """Give the command of the program that lists and makes changes; compiles it if need be."""
    library = next(fetch_jars("byte-buddy", [BYTE_BUDDY]).glob("byte-buddy-*.jar"))
    sources = {p.relative_to(SOURCES): p.read_text("utf-8") for p in SOURCES.rglob("*.java")}
    own = compiled(dist, dist.home.parent / "kafka-mutator", sources, (library,))
    return [str(dist.java), "-cp", f"{library}:{own}", MUTATOR]


def all_mutations(dist: KafkaDist) -> list[Mutation]:
    """Give all changes of the classes, in a fixed order."""
    found: list[Mutation] = []
    folders = ",".join(f"{OF_KAFKA}{folder}/" for folder in FOLDERS)
    for jar in jars_of(dist):
        argv = [*mutator(dist), "list", folders, str(jar)]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        for line in sorted(done.stdout.splitlines()):
            name, method, at, operator, number, text = line.split("\t")
            if not name.removeprefix(OF_KAFKA).startswith(OF_BROKERS):
                place = (jar.name, name, method, int(at))
                found.append(Mutation(*place, operator, int(number), text))
    return found


def drawn(everything: Iterable[Mutation], rng: Random) -> Iterator[Mutation]:
    """Draw changes, none twice: first an operator, each as likely as the others, then a place."""
    groups: dict[str, list[Mutation]] = {name: [] for name in OPERATORS}
    for each in sorted(everything, key=lambda m: (m.jar, m.name, m.number)):
        groups[each.operator].append(each)
    return hunts.one_by_one(groups, rng)


# ------------------------------------------------------------------ the hunt


def calm(version: str) -> SimRun:
    """Play topics without faults."""
    settings = {VERSION: version}
    calm_ = RunSpec(
        seed=1,
        env=SIM,
        system="kafka",
        workload="topics",
        voters=3,
        observers=1,
        nemeses=(),
        time_limit_s=10.0,
        settings=settings,
    )
    return simulate(Plan.simulated(calm_, asked_for=False))


def swarm(version: str, seed: int, workload: str | None) -> SimRun:
    """Play a seed of the swarm, with the workload that it draws or with another."""
    asked = {} if workload is None else {"workload": workload}
    spec = draw(seed, {"system": "kafka", "settings": {VERSION: version}, **asked})
    return simulate(Plan.simulated(spec, asked_for=False))


def alarms(run: SimRun, version: str) -> tuple[Anomaly, ...]:
    """Give what a run broke that no finding explains."""
    if run.verdict is not Valid.INVALID:
        return ()
    known = known_of([Release(version)])
    anomalies = run.judgement.anomalies
    if any(each.covers(anomaly) for each in known for anomaly in anomalies):
        return ()
    return tuple(each for each in anomalies if each.invariant not in UNDECIDED)


def hunt(name: str | None, order: Mapping[str, Any]) -> dict[str, Any]:
    """Play the calm run, then the swarm until something is caught; give the outcome."""
    version: str = order["version"]
    first = calm(version)
    if first.broken is not None or first.verdict is not Valid.VALID:
        by = sorted({each.invariant for each in first.judgement.anomalies})
        return {"outcome": "dead", "by": by, "why": first.broken}
    hashes = {"calm": first.trace_sha256}
    began_s = time.process_time()
    for seed in count(1):
        run = swarm(version, seed, order["workload"])
        cpu_s = time.process_time() - began_s
        done = {"seed": seed, "cpu_s": round(cpu_s, 1)}
        found = alarms(run, version)
        if found:
            by = sorted({each.invariant for each in found})
            return {"outcome": "caught", "by": by, "why": found[0].message[:500], **done}
        if run.broken is not None:
            return {"outcome": "broken", "why": run.broken, **done}
        if seed <= COMPARED:
            hashes[str(seed)] = run.trace_sha256
        if seed == COMPARED and name is not None:
            if not reached(version, name):
                return {"outcome": "unreached", **done}
            if hashes == order["same"]:
                return {"outcome": "same", **done}
        if cpu_s >= order["budget_s"] and seed >= COMPARED:
            return {"outcome": "survived", "hashes": hashes, **done}
    raise AssertionError("a count has no end")


def reached(version: str, name: str) -> bool:
    """Tell whether the changed place of this process was ever reached."""
    mark = jvm.loaded(Release(version)).class_of(name.replace("/", ".")).getField(MARK)
    mark.setAccessible(True)
    return bool(mark.get(None))


def one() -> None:
    """Do what an order on stdin says, and print the outcome."""
    order = json.load(sys.stdin)
    expect(MANY)
    name = None
    with tempfile.TemporaryDirectory(prefix="krucible-mutation-") as folder:
        if order["mutation"] is not None:
            mutation = Mutation(**order["mutation"])
            name = mutation.name
            dist = fetch_classes(Release(order["version"]))
            jar = next(each for each in jars_of(dist) if each.name == mutation.jar)
            what = ("make", str(jar), name, str(mutation.number), folder)
            subprocess.run([*mutator(dist), *what], check=True)
            jvm.patch(Path(folder))
        outcome = hunt(name, order)
    print(json.dumps(outcome))


def in_a_process(
    mutation: Mutation | None, arguments: argparse.Namespace, same: Mapping[str, str]
) -> dict[str, Any]:
    """Hunt in a new process, which may die or never end."""
    order = {
        "mutation": mutation and asdict(mutation),
        "version": arguments.version,
        "workload": arguments.workload,
        "same": same,
        "budget_s": arguments.budget,
    }
    cpu_s = int(arguments.budget) + HUNG_AFTER_S
    outcome, why = hunts.in_a_process("bench.kafka_mutation", order, cpu_s)
    return {"outcome": "broken", "why": why[-500:]} if outcome is None else outcome


# ------------------------------------------------------------------ the figure


def play(arguments: argparse.Namespace) -> None:
    """Hunt changes until as many count as were asked for."""
    version: str = arguments.version
    rows = hunts.stored(arguments.out)
    seen = {Mutation(**row["mutation"]) for row in rows}
    everything = all_mutations(fetch_classes(Release(version)))
    say(f"{len(everything):,} changes of classes of Apache Kafka {version}")
    control = in_a_process(None, arguments, {})
    if control["outcome"] != "survived":
        sys.exit(f"the unchanged Kafka is caught, so nothing can be said of others: {control}")
    say(f"control: {control['seed']} seeds without an alarm")
    played = ("--workload", arguments.workload) if arguments.workload else ()
    came = lines(executed(fetch_classes(Release(version)), "--seeds", f"1..{COMPARED}", *played))
    near = [m for m in everything if (m.name, m.line) in came and arguments.only in str(m)]
    say(f"{len(near):,} of them in lines that seeds 1 to {COMPARED} come to")
    left = drawn(near, Random(f"kafka mutation {arguments.seed}"))
    hunts.play(
        (each for each in left if each not in seen),
        lambda mutation: in_a_process(mutation, arguments, control["hashes"]),
        rows,
        arguments.out,
        is_enough=lambda found: hunts.counted(found, COUNTED) >= arguments.draw,
        jobs=arguments.jobs,
    )
    print(hunts.report(rows, COUNTED, OTHERS, lambda row: str(Mutation(**row["mutation"]))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default=KNOWN[-1], help="release of Apache Kafka")
    parser.add_argument("--draw", type=int, default=100, help="changes that count")
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    parser.add_argument("--budget", type=float, default=120.0, help="CPU seconds a change")
    parser.add_argument("--only", default="", metavar="TEXT", help="in what is told of a change")
    parser.add_argument("--workload", metavar="NAME", help="of all seeds")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("kafka-mutation.jsonl"))
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        one()
    else:
        play(arguments)


if __name__ == "__main__":
    main()
