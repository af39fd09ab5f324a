"""Makes small changes to the checkers, and sees whether the tests notice.

    python -m tests.support.mutations.run [--only TEXT] [--every N] [--whole] [--control]

Each change is made in a copy of the package; then the test that is named beside it is run, with
``--whole`` all test files that are named beside any. First they must all pass on a copy in which
nothing is changed. Prints a line for each, and exits 1 when one was missed. ``--control`` makes a
change that breaks nothing: no test may notice.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.mutations import linearizability, transactions
from tests.support.mutations.mutation import Mutation
from tests.support.places import ROOT

MUTATIONS = (*transactions.MUTATIONS, *linearizability.MUTATIONS)
CONTROL = Mutation(
    "models/mutex.py",
    "held = state == freeze(True)",
    "held = freeze(True) == state",
    "checkers/models/test_models.py::test_ops_one_after_the_other",
)
SOUND_S = 300  # CPU time that tests may take when nothing is changed
SLOWER, CPU_MIN_S = 3, 10  # so many times as much, and more: it goes on for ever, and was noticed
MEMORY_BYTES = 4 << 30  # that a test may have: more is as good as endless
PASSED, FAILED = 0, 1  # exit codes of pytest; with any other the tests were not run


def main() -> int:
    """Try all, one after the other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--whole", action="store_true", help="run all tests for each")
    parser.add_argument("--only", default="", help="those whose file or change holds this text")
    parser.add_argument("--every", type=int, default=1, help="only each N-th")
    parser.add_argument("--control", action="store_true", help="a change that breaks nothing")
    options = parser.parse_args()
    every = (CONTROL,) if options.control else MUTATIONS
    chosen = [m for m in every if options.only in f"{m.file}: {m.old}"][:: options.every]
    if not chosen:
        raise SystemExit(f"no file or change holds {options.only!r}")
    whole = tuple(sorted({mutation.test.partition("::")[0] for mutation in chosen}))
    took_s: dict[tuple[str, ...], float] = {}
    missed = 0
    for mutation in chosen:
        tests = whole if options.whole else (mutation.test,)
        if tests not in took_s:
            took_s[tests] = _sound(tests)
        noticed = _noticed(mutation, tests, SLOWER * took_s[tests] + CPU_MIN_S)
        missed += not noticed
        _say(f"{'noticed' if noticed else 'MISSED '}  {mutation.file}: {mutation.old.strip()!r}")
    _say(f"{len(chosen)} changes, {missed} missed")
    return 1 if missed else 0


def _sound(tests: Sequence[str]) -> float:
    """The CPU time that tests take in a copy without any change, which they must pass."""
    with _copy() as copy:
        code, cpu_s = _run(copy, tests, SOUND_S)
    if code != PASSED:
        raise SystemExit(f"{', '.join(tests)}: {code} before anything is changed: mend that first")
    return cpu_s


def _noticed(mutation: Mutation, tests: Sequence[str], cpu_s: float) -> bool:
    """Make the change in a copy, and see whether the tests fail there, or never end."""
    with _copy() as copy:
        path = copy / "checkers" / mutation.file
        text = path.read_text(encoding="utf-8")
        if text.count(mutation.old) != 1:
            raise SystemExit(
                f"{mutation.file} has {mutation.old!r} {text.count(mutation.old)} times, want once:"
                " say anew what to change"
            )
        path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
        code, _ = _run(copy, tests, cpu_s)
    if code not in (PASSED, FAILED):
        raise SystemExit(f"{mutation.file}: {mutation.old!r}: {tests} ended with {code}")
    return code == FAILED


@contextmanager
def _copy() -> Iterator[Path]:
    """A folder with a copy of the checkers; the tests are not copied, so they see no change."""
    with tempfile.TemporaryDirectory(prefix="krucible-mutation-") as name:
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "checkers", Path(name) / "checkers", ignore=ignore)
        yield Path(name)


def _run(first: Path, tests: Sequence[str], cpu_s: float) -> tuple[int, float]:
    """Run tests in a child that has all but the checkers imported already: exit code, CPU time."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        _, status, used = os.wait4(child, 0)
        code = os.waitstatus_to_exitcode(status)
        return FAILED if code == -signal.SIGXCPU else code, used.ru_utime + used.ru_stime
    code = 3
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_s), int(cpu_s) + 1))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        sys.dont_write_bytecode = True
        sys.path.insert(0, str(first))
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        import pytest  # noqa: PLC0415

        options = ["-x", "-q", "-p", "no:cacheprovider", "--rootdir", str(ROOT)]
        code = int(pytest.main([*options, *(str(ROOT / "tests" / test) for test in tests)]))
    finally:
        os._exit(code)


def _preload() -> None:
    """Import what every child needs, but nothing of the checkers."""
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # none is needed, and they cost time
    import hypothesis  # noqa: F401, PLC0415
    import networkx as nx  # noqa: PLC0415
    import pytest  # noqa: F401, PLC0415

    import harness.contracts.checker  # noqa: PLC0415
    import harness.history.formats  # noqa: F401, PLC0415

    nx.DiGraph()
    for name in [name for name in sys.modules if name.partition(".")[0] == "checkers"]:
        raise SystemExit(f"{name} is imported before it can be changed")


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - what people read


if __name__ == "__main__":
    _preload()
    sys.exit(main())
