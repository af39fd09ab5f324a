"""Apache Kafka's own simulation of its quorum, ``RaftEventSimulationTest``, beside ours.

    python bench/peer_simulation.py [--methods canElectInitialLeader ...] [--seeds 1..10]

The test is in Kafka's published test jar; Maven fetches that, what it needs and a compiler, once,
into the cache of the interop tests. A try of it is one cluster of 1 to 5 voters and 0 to 5
observers from a seed: the leader appends every 2 to 4 ms, one or two faults strike, invariants are
checked after each event, and it ends when the high watermark has gone on; each of its methods does
100. Their clocks only go on when the simulation makes them sleep, so a clock of ours in their place
adds up what was simulated. Ours is a seed of ``bench/sim.py``: whole nodes with sockets' bytes,
disks, brokers, clients and checkers, 30 s and more each. Take a machine at rest; about 4 minutes.
Prints tables on stdout and one JSON object as the last line.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.sim import Measured, measure, quiet
from bench.support.figures import say, table

KAFKA_VERSION = "4.1.2"
TEST = "org.apache.kafka.raft.RaftEventSimulationTest"
COMPILER = "ecj-3.37.0.jar"
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
TIMEOUT_S = 1_800
_WANTED = (
    ("org.apache.kafka", "kafka-raft", KAFKA_VERSION, ""),
    ("org.apache.kafka", "kafka-raft", KAFKA_VERSION, "test"),
    ("org.apache.kafka", "kafka-clients", KAFKA_VERSION, "test"),
    ("org.apache.kafka", "kafka-server-common", KAFKA_VERSION, "test"),
    ("org.junit.platform", "junit-platform-console-standalone", "1.13.1", ""),
    ("net.jqwik", "jqwik", "1.9.3", ""),
    ("org.mockito", "mockito-core", "5.14.2", ""),
    ("org.slf4j", "slf4j-nop", "1.7.36", ""),
    ("org.eclipse.jdt", "ecj", "3.37.0", ""),
)
_DEPENDENCY = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>"
    "<classifier>{}</classifier></dependency>"
)
POM = (
    "<project><modelVersion>4.0.0</modelVersion><groupId>krucible</groupId>"
    "<artifactId>peer</artifactId><version>1</version><packaging>pom</packaging><dependencies>"
    + "".join(_DEPENDENCY.format(*wanted) for wanted in _WANTED)
    + "</dependencies></project>\n"
)
# Stands in for the clock of that name in the test jar: the same to its users, but it counts.
CLOCK = """\
package org.apache.kafka.common.utils;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;

public class MockTime implements Time {
    public interface Listener {
        void onTimeUpdated();
    }

    private static final AtomicLong CLOCKS = new AtomicLong();
    private static final AtomicLong SLEPT_MS = new AtomicLong();

    static {
        Runtime.getRuntime().addShutdownHook(new Thread(() ->
            System.out.println("clocks=" + CLOCKS + " slept_ms=" + SLEPT_MS)));
    }

    private final List<Listener> listeners = new ArrayList<>();
    private long nowMs = System.currentTimeMillis();

    public MockTime() {
        CLOCKS.incrementAndGet();
    }

    public void addListener(Listener listener) {
        listeners.add(listener);
    }

    @Override
    public long milliseconds() {
        return nowMs;
    }

    @Override
    public long nanoseconds() {
        return nowMs * 1_000_000;
    }

    @Override
    public void sleep(long ms) {
        nowMs += ms;
        SLEPT_MS.addAndGet(ms);
        listeners.forEach(Listener::onTimeUpdated);
    }

    @Override
    public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
        throw new UnsupportedOperationException("a simulation has one thread");
    }
}
"""
_ENDED = re.compile(r"clocks=(\d+) slept_ms=(\d+)")
_FAILED = re.compile(r"\[\s*(\d+) tests failed")
HEAD = ("", "seeds", "simulated s", "wall s", "CPU s", "seeds / CPU s", "x real time (CPU)")


@dataclass(frozen=True, slots=True)
class Simulated:
    """The work of one side: how many seeds and seconds it simulated, and in what time."""

    seeds: int
    simulated_s: float
    wall_s: float
    cpu_s: float

    def row(self, name: str) -> tuple[object, ...]:
        """One line of the table."""
        return (
            name,
            self.seeds,
            f"{self.simulated_s:.0f}",
            f"{self.wall_s:.1f}",
            f"{self.cpu_s:.1f}",
            f"{self.seeds / self.cpu_s:.2f}",
            f"{self.simulated_s / self.cpu_s:.0f}",
        )


def fetch(home: Path) -> None:
    """Put the jars and our clock into ``home``; raises SystemExit when they cannot be had."""
    mvn = shutil.which("mvn")
    if mvn is None or shutil.which("java") is None:
        raise SystemExit("peer_simulation: Java 17 and Maven are needed: apt-get install maven")
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".peer-", dir=home.parent) as scratch:
        made = Path(scratch) / home.name
        source = made / "src" / "MockTime.java"
        source.parent.mkdir(parents=True)
        source.write_text(CLOCK, encoding="utf-8")
        (made / "pom.xml").write_text(POM, encoding="utf-8")
        say("fetching Kafka's test jars and what they need")
        run([mvn, "-q", "-B", PLUGIN, "-DincludeScope=runtime", "-DoutputDirectory=lib"], made)
        api = f"lib/kafka-clients-{KAFKA_VERSION}.jar"
        compiler = ["java", "-jar", f"lib/{COMPILER}", "-17", "-d", "classes", "-cp", api]
        run([*compiler, str(source)], made)
        made.rename(home)


def run(argv: Sequence[str], folder: Path) -> str:
    """Run a program and return what it prints; raises SystemExit with its last words on failure."""
    done = subprocess.run(
        argv, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    if done.returncode:
        raise SystemExit(f"peer_simulation: {argv[0]} failed: {(done.stdout + done.stderr)[-800:]}")
    return done.stdout


def kafka(home: Path, methods: Sequence[str]) -> Simulated:
    """Run Kafka's simulation, all of it or some methods."""
    chosen = [f"--include-methodname=.*#{method}" for method in methods]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    told = run(
        [
            *("java", "-Xmx1g", "-cp", "classes:lib/*"),
            *("org.junit.platform.console.ConsoleLauncher", "execute", "--disable-banner"),
            *(f"--select-class={TEST}", *chosen),
            *("--config", "jqwik.database="),
        ],
        home,
    )
    wall_s, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    ended, failed = _ENDED.search(told), _FAILED.search(told)
    if ended is None or failed is None or int(failed[1]):
        raise SystemExit(f"peer_simulation: {TEST} did not end well: {told[-800:]}")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Simulated(int(ended[1]), int(ended[2]) / 1e3, wall_s, cpu_s)


def ours(seeds: Sequence[int], seconds: float) -> tuple[Simulated, Simulated]:
    """Our simulation on one core, with all checkers and without."""
    quiet()
    measure(0, 1.0)
    began = time.perf_counter()
    each = [measure(seed, seconds) for seed in seeds]
    wall_s = time.perf_counter() - began
    return _of(each, wall_s, checkers=True), _of(each, wall_s, checkers=False)


def _of(each: Sequence[Measured], wall_s: float, *, checkers: bool) -> Simulated:
    cpu_s = sum(one.cpu_s if checkers else one.run_s for one in each)
    checkers_s = 0.0 if checkers else sum(one.checkers_s for one in each)
    return Simulated(len(each), sum(one.simulated_s for one in each), wall_s - checkers_s, cpu_s)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--methods", nargs="*", default=[], help="of Kafka's test; all of them")
    parser.add_argument("--seeds", default="1..10", help="ours (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each of ours")
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path.home() / ".cache" / "krucible",
        help="for what is fetched",
    )
    arguments = parser.parse_args()
    home = arguments.cache / f"peer-{KAFKA_VERSION}"
    if not home.is_dir():
        fetch(home)
    first, last = map(int, arguments.seeds.split(".."))
    say(f"Kafka's {TEST}")
    peer = kafka(home, arguments.methods)
    say("ours")
    whole, bare = ours(range(first, last + 1), arguments.seconds)
    named = {"kafka": peer, "krucible": whole, "krucible_without_checkers": bare}
    print(table(HEAD, [each.row(name.replace("_", " ")) for name, each in named.items()]))
    print(
        json.dumps(
            {
                "bench": "peer_simulation",
                "kafka_version": KAFKA_VERSION,
                "methods": arguments.methods or "all",
                "python": platform.python_version(),
                **{name: asdict(each) for name, each in named.items()},
            }
        )
    )


if __name__ == "__main__":
    main()
