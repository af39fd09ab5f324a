"""What a machine can judge without taste: import contracts, seams, names, what files may say."""

from __future__ import annotations

import importlib.util
import re
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.support.commands.source import modules, packages, tracked, uses
from tests.support.places import ROOT

MODULES = modules()

# Who may read a clock, and why. Everything else is told the time.
CLOCKS = {
    "node/clock.py": "the clock of a node",
    "node/faults/hands.py": "stamps damage in a node's trace, as the node would",
    "krucible/live.py": "what people see while a run lasts",
    "krucible/commands/shrink.py": "its budget is in seconds, and told when it is spent",
    "krucible/commands/sim.py": "tells people how much faster than real time it was",
    "harness/batch/trial.py": "the processor time that a seed took",
    "pipeline/crew.py": "jobs of a cluster that take too long are begun again",
    "harness/sessions/released/chase.py": "how long a bug got away, and when to give it up",
    "harness/sessions/zoo.py": "how long a bug got away, and when to give it up",
    "harness/processes/crew.py": "the time that a piece of work may take",
    "krucible/doctor/checks.py": "measures how long an fsync takes",
    "harness/envs/docker/containers.py": "waits for the Engine to hear of the end of a container",
    "harness/envs/docker/engine.py": "waits for removals that others have begun",
    "harness/agent/probe.py": "measures how long a probe took, inside a container",
    "harness/agent/packets.py": "holds packets back, in a process of its own",
    "harness/envs/clocks/orders.py": "works out what a clock that it bends has to show",
    "harness/envs/processes/running.py": "waits for the kernel to change a process's state",
    "harness/healing/watchdog.py": "waits for its harness's death, in a process of its own",
    "harness/agent/processes.py": "waits for processes to end, in a process of its own",
    "harness/agent/disk.py": "waits for a mount, in a process of its own",
    "harness/agent/foreign.py": "waits for processes to end and start, in a process of its own",
    "harness/agent/java.py": "waits for a JVM to answer, in a process of its own",
    "harness/agent/files.py": "waits for another supervisor that removes the same folder",
    "harness/envs/links/tcp_probe.py": "measures how long a probe took",
    "harness/healing/heal.py": "waits for processes of dead runs to be gone",
    "harness/run/judge.py": "stops checkers that take too long",
    "krucible/commands/nightly.py": "names a night by the moment of its start",
    "krucible/commands/explore.py": "a search's budget is real time",
    "harness/explore/play.py": "tells how much CPU a candidate took",
    "harness/nightly/sims.py": "simulates seeds until its slice of the night is over",
    "harness/nightly/searches.py": "searches until its slice of the night is over",
    "harness/nightly/work.py": "a night's budget is real time",
    "harness/systems/kafka/distribution.py": "waits for a server that warms up an archive",
    "harness/store/folder.py": "names a run by the moment of its start",
    "harness/store/remote/copies.py": "names a folder by its moment; waits for a harness to die",
    "harness/store/remote/mirror.py": "how long ago it looked at who else is there",
    "harness/store/remote/nights.py": "stores a night's ledger for a share of its time only",
    "harness/store/remote/objects.py": "an object that a server dates not at all is of now",
    "krucible/commands/heal.py": "how old remains are that another machine may still need",
    "checkers/limits/budget.py": "gives up at its time limit: UNKNOWN, never another verdict",
}
# Who may make randomness, and why. Everything else is handed a generator that the seed decides.
DICE = {
    "node/driver/answering.py": "what it draws nobody sees",
    "harness/seeds.py": "the seam: every stream of the harness is split from the run's seed",
    "krucible/commands/run.py": "draws the seed when none is given",
    "harness/agent/packets.py": "which packets are lost or late; a process of its own",
    "harness/envs/sim/hosts.py": "streams of simulated hosts and links, split from the one given",
    "nemesis/common/targets.py": "a stream from the fault's own draw, so that a replay aims alike",
    "harness/systems/kafka/simulated/registers.py": "a stream from the node's seed and incarnation",
    "node/driver/process.py": "the node's stream, from its seed and its incarnation",
    "node/sim/fabric.py": "the luck of a link, from the simulation's seed and its hosts' names",
    "node/formatting.py": "the identity of a disk that is formatted",
    "harness/store/remote/copies.py": "names a folder as nobody else does",
    "node/faults/hands.py": "damage by chance, from the seed that comes with each order",
}
CLOCK_USE = re.compile(
    r"time\.(time|time_ns|monotonic|monotonic_ns|perf_counter|perf_counter_ns|process_time|sleep)\b"
    r"|datetime\.(datetime|date)\.(now|utcnow|today)\b"
)
DICE_USE = re.compile(
    r"random\.(?!Random\Z)\w+|secrets\.\w+|os\.urandom\b|uuid\.uuid[14]\b|numpy\.random\b"
)


# Each part of a full name stands in the source as it is, whatever it is imported as.
MAY_USE = re.compile(r"\b(time|datetime|random|secrets|urandom|uuid|numpy)\b")


@cache
def _uses() -> dict[str, set[str]]:
    some = [path for path in MODULES if MAY_USE.search(path.read_text(encoding="utf-8"))]
    return {str(path.relative_to(ROOT)): uses(path) for path in some}


def _users(pattern: re.Pattern[str]) -> set[str]:
    return {name for name, used in _uses().items() if any(map(pattern.match, used))}


@pytest.mark.parametrize(
    ("pattern", "allowed"), [(CLOCK_USE, CLOCKS), (DICE_USE, DICE)], ids=["clocks", "dice"]
)
def test_clocks_and_dice_are_used_at_the_seams_only(
    pattern: re.Pattern[str], allowed: dict[str, str]
) -> None:
    used = _users(pattern)
    assert used <= set(allowed), "take a Clock or a Random as an argument, or say here why not"
    gone = {name for name in set(allowed) - used if (ROOT / name).exists()}
    assert not gone, "these need no permission any more"


def test_no_module_is_called_like_one_of_the_standard_library() -> None:
    # as a top-level name it would shadow it; within a package it would confuse
    assert not [name for name in packages() if name in sys.stdlib_module_names]
    allowed = {  # in packages, where only full names reach them
        "node/trace.py",
        "node/core/types.py",
        "checkers/replay/trace.py",
        "reports/html.py",
    }
    taken = sys.stdlib_module_names - {"__main__", "__init__"}
    found = {str(p.relative_to(ROOT)) for p in MODULES if p.stem in taken}
    assert found <= allowed, found - allowed


def test_there_is_no_python_in_docker() -> None:
    inside = [path.relative_to(ROOT) for path in tracked() if path.suffix == ".py"]
    assert not [path for path in inside if path.parts[0] == "docker"]


def test_tests_mirror_the_code() -> None:
    """Each folder of tests has the path of the folder that it tests, below ``tests/``."""
    found = {p.parent.relative_to(ROOT / "tests") for p in tracked() if p.name.startswith("test_")}
    own = set(map(Path, ("house", "interop", "node/processes")))  # of the whole, real
    assert not {folder for folder in found - own if not (ROOT / folder).is_dir()}


def test_no_class_looks_like_a_test() -> None:
    # pytest would try to collect it where it is imported, and warnings are errors
    pattern = re.compile(r"^class Test\w*[(:]", re.MULTILINE)
    assert not [p for p in MODULES if pattern.search(p.read_text(encoding="utf-8"))]


def test_modules_are_short_enough_to_be_read() -> None:
    long = {p: n for p in MODULES if (n := len(p.read_text(encoding="utf-8").splitlines())) > 600}
    assert not long


# --------------------------------------------------------------------------- what files say

HOSTS = ("pypi" + ".org", "pypi" + ".python.org", "pythonhosted" + ".org", "index" + "-url")
PLACES = re.compile(r"(?<![\w.~])/(?:home|Users|root|work|mnt|media)/\w")
OUR_WORDS = ("/work" + "/", "artifact" + "ory")


def _says(text: str) -> bool:
    return any(word in text for word in (*HOSTS, *OUR_WORDS)) or bool(PLACES.search(text))


def test_files_name_no_registry_and_no_place_on_one_machine() -> None:
    found = []
    for path in tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if _says(text):
            lines = enumerate(text.splitlines(), start=1)
            found += [f"{path.relative_to(ROOT)}:{n}" for n, line in lines if _says(line)]
    assert not found


def test_every_pinned_version_is_pinned_once_and_the_tools_of_pyproject_are_pinned() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    names = [re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() for line in lines]
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[\w.+!-]+", line) for line in lines)
    assert len(names) == len(set(names))
    wanted = {"crc32c", "kio", "msgspec", "networkx", "rich", "typer", "pytest", "ruff", "mypy"}
    assert wanted <= set(names)


RUN_BY_SCRIPTS = sorted(
    {
        (path, module)
        for path in ("Makefile", ".ci/run", ".ci/engine", "docker/make-base")
        for module in re.findall(
            r"python\d?(?:\.\d+)? -m ([a-z_]+(?:\.[a-z_]+)*)",
            (ROOT / path).read_text(encoding="utf-8"),
        )
    }
)


@pytest.mark.parametrize(("path", "module"), RUN_BY_SCRIPTS)
def test_a_module_that_a_script_runs_is_there(path: str, module: str) -> None:
    assert importlib.util.find_spec(module) is not None, f"{path} runs {module}"


def test_scripts_run_modules_only_by_name() -> None:
    """An import in the text of a command is seen by no other check."""
    assert ("Makefile", "harness.systems.kafka.fetch") in RUN_BY_SCRIPTS
    for path in ("Makefile", ".ci/run", ".ci/engine", "docker/make-base"):
        assert not re.search(r"python\S* -c", (ROOT / path).read_text(encoding="utf-8")), path
