"""Measure what `krucible analyze` costs as a store grows, and when few of its runs are new.

    python bench/analyze.py [--events 500000,5000000] [--base 24] [--new 1] [--master 'local[2]']
        [--folder /tmp] [--copy] [--s3]

A base of simulated runs, every eighth with a seeded bug, is made once and then multiplied: a copy
has hard links to the same events, ops and logs (or, with --copy, files of its own: some 230 bytes
of disk an event), and a folder name and a spec with another seed. What is read and judged is real;
only that copies are alike is not, so that no compression of a table should be read off these
figures, and with links no cache of a disk either. Each analysis is a process of its own. CPU
time is that of the process and all of its children, peak RSS the largest sum over them, sampled.
Growth is between the smallest and the largest store, by CPU time; "single" is the CPU time of the
checkers of single runs in one process on the base, by event. Wall time needs a machine at rest.
With --s3 the largest store is also put into a bucket of a server on this machine (SeaweedFS), and
analysed from there, before and after the new runs come.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.support.figures import say, table
from harness.run.judge import judge_here
from harness.sessions.live import judges
from harness.sessions.plan import Plan
from harness.sessions.simulated import save, simulate
from harness.sessions.swarm import draw
from harness.sessions.zoo import bugs, plan_of
from harness.store.folder import RunDir, Store
from harness.store.home import found
from harness.store.reading import load_run
from krucible.stores import closing, mirror_of
from tests.support.objects.server import BUCKET, served

KRUCIBLE = (sys.executable, "-c", "from krucible.app import main; main()")
SAMPLE_S = 0.25
# Some 5,020 events and 1,010 lines of history a run: 10,000 runs have 50 and 10 million of them.
PINNED = {
    "time_limit_s": 2.45,
    "rate_hz": 198.0,
    "concurrency": 20,
    "voters": 3,
    "observers": 0,
    "settings": {
        "controller.quorum.append.linger.ms": "34",
        "metadata.max.idle.interval.ms": "1000",
    },
}
HEAD = ("runs", "events", "ops", "wall s", "CPU s", "CPU us/event", "peak RSS MB", "differ")


@dataclass(frozen=True, slots=True)
class Cost:
    """One analysis."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    told: dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", default="500000,5000000", help="sizes of stores, by comma")
    parser.add_argument("--folder", type=Path, help="where the stores are made; removed at the end")
    parser.add_argument("--copy", action="store_true", help="copies have files of their own")
    parser.add_argument("--base", type=int, default=24, help="simulated runs that are multiplied")
    parser.add_argument("--new", type=float, default=1.0, help="percent of runs that are new")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--s3", action="store_true", help="the largest store on S3, too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="krucible-bench-", dir=options.folder) as folder:
        measure(Path(folder), options)


def measure(folder: Path, options: argparse.Namespace) -> None:
    base = make_base(folder / "base", options.base)
    events, single_s = judged_singly(base)
    single_us = single_s / events * 1e6
    say(f"base: {len(base)} runs, {events} events; single: {single_us:.1f} CPU us/event")
    costs: list[Cost] = []
    store, copies = folder, 0
    for wanted in map(int, options.events.split(",")):
        store = folder / f"store-{wanted}"
        copies = multiply(base, store, -(-wanted * len(base) // events), begin=0, own=options.copy)
        costs.append(analyse(store, options.master))
        row(costs[-1])
    fewer, more = costs[0], costs[-1]
    growth = more.cpu_s / fewer.cpu_s
    times = more.told["events"] / fewer.told["events"]
    say(f"growth: {growth:.2f} times the CPU for {times:.2f} times the events")
    new = max(1, round(copies * options.new / 100))
    if options.s3:
        in_bucket(folder, base, (store, copies, new), options.master)
    multiply(base, store, new, begin=copies, own=options.copy)
    again = analyse(store, options.master)
    row(again)
    say(
        f"{new} new runs beside {copies}: {more.wall_s / again.wall_s:.1f} times faster,"
        f" {more.cpu_s / again.cpu_s:.1f} times less CPU than the whole"
    )


def in_bucket(folder: Path, base: list[RunDir], sizes: tuple[Path, int, int], master: str) -> None:
    """Analyse a store and then some new runs from a bucket.

    Args:
        folder: Where the server keeps its objects.
        base: Runs that are multiplied.
        sizes: The store that is put into the bucket, its runs, and how many come then.
        master: Of Spark.
    """
    store, count, new = sizes
    with served(empty(folder / "s3")) as server:
        os.environ.update(server.environ())
        address = f"s3://{BUCKET}/bench"
        put(store, address)
        say("from a bucket, the whole, then what is new, then nothing new:")
        row(analyse(address, master))
        fresh = empty(folder / "fresh")
        multiply(base, fresh, new, begin=count, own=True)
        put(fresh, address)
        row(analyse(address, master))
        row(analyse(address, master))


def empty(folder: Path) -> Path:
    folder.mkdir()
    return folder


def put(store: Path, address: str) -> None:
    """Store the runs of a folder in a bucket."""
    with closing():
        root = mirror_of(address).root
        for run in found(store):
            shutil.copytree(run, root / run.parent.name / run.name)


def row(cost: Cost) -> None:
    told = cost.told
    cells = [
        told["runs"],
        told["new"]["events"],
        told["new"]["ops"],
        f"{cost.wall_s:.1f}",
        f"{cost.cpu_s:.1f}",
        f"{cost.cpu_s / max(1, told['new']['events']) * 1e6:.1f}",
        f"{cost.peak_mb:.0f}",
        told["disagreements"],
    ]
    say(table(HEAD, [list(map(str, cells))]))


def make_base(folder: Path, count: int, pinned: Mapping[str, Any] = PINNED) -> list[RunDir]:
    """Short busy runs of the swarm, and every eighth one with a bug in its scenario."""
    store = Store(folder)
    mutants = [bug for bug in bugs() if bug.scenario is not None]
    for number in range(count):
        bug = mutants[number * 7 % len(mutants)]
        if number % 8 == 7 and bug.scenario is not None:
            plan = plan_of(bug.scenario, bug.scenario["seeds"][0], bug.name)
        else:
            plan = Plan.simulated(draw(number, pinned), asked_for=False)
        save(simulate(plan), store)
    return store.runs()


def judged_singly(base: list[RunDir]) -> tuple[int, float]:
    """(events, CPU seconds) to read and judge the base by the checkers of single runs."""
    began, events = time.process_time(), 0
    for run in base:
        stored = load_run(run.path)
        judge_here(stored.data, judges(stored))
        events += sum(map(len, stored.data.events.values()))
    return events, time.process_time() - began


def multiply(base: list[RunDir], store: Path, count: int, *, begin: int, own: bool = False) -> int:
    """Add so many copies of base runs, numbered from ``begin`` on; gives how many.

    ``own``: with files of their own, not links.
    """
    for number in range(begin, begin + count):
        source = base[number % len(base)].path
        start = source.name.partition("-")[0]
        target = store / source.parent.name / f"{start}.{number}-{number}"
        shutil.copytree(source, target, copy_function=shutil.copy2 if own else os.link)
        spec = json.loads((source / "spec.json").read_bytes())
        (target / "spec.json").unlink()
        (target / "spec.json").write_text(json.dumps({**spec, "seed": number}))
    return count


def analyse(store: Path | str, master: str) -> Cost:
    """Run the command in a process of its own, and watch it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    command = [*KRUCIBLE, "analyze", str(store), "--master", master, "--json"]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(command, stdout=out, stderr=err)
        peak_kb, cpu_s = 0, 0.0
        while process.poll() is None:
            alive = list(descendants(process.pid))
            peak_kb = max(peak_kb, sum(map(rss_kb, alive)))
            cpu_s = max(cpu_s, sum(map(used_s, alive)))
            time.sleep(SAMPLE_S)
        out.seek(0)
        err.seek(0)
        assert process.returncode in (0, 255), err.read().decode()[-2000:]
        told = json.loads(out.read())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    waited_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(time.monotonic() - began, max(cpu_s, waited_s), peak_kb / 1024, told)


def descendants(pid: int) -> Iterator[int]:
    """A process and all that it began, as /proc tells."""
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:
            continue  # it has just ended
        for child in children:
            yield from descendants(int(child))


def rss_kb(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmRSS")), 0)


def used_s(pid: int) -> float:
    """CPU time of a process and of those of its children that ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
