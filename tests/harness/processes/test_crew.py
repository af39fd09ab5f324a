"""Work in processes of its own: told as it goes, bounded in time, and gone when nobody listens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from harness.processes.crew import Job, Said, work_off


def says(*values: Any) -> Iterator[Any]:
    yield from values


def told(jobs: list[Job], at_a_time: int) -> list[tuple[str, Any]]:
    """(name, value) of what is said, (name, (why it ended,)) of ends."""
    return [
        (each.job.name, each.value if isinstance(each, Said) else (each.broken,))
        for each in work_off(jobs, at_a_time)
    ]


def test_what_jobs_yield_is_told_in_their_order_one_at_a_time() -> None:
    jobs = [Job("a", lambda: says(1, 2)), Job("b", says), Job("c", lambda: says(3))]
    assert told(jobs, 1) == [
        ("a", 1),
        ("a", 2),
        ("a", (None,)),
        ("b", (None,)),
        ("c", 3),
        ("c", (None,)),
    ]


def test_side_by_side_all_is_told_and_each_in_its_order() -> None:
    jobs = [Job(str(n), partial(says, n, n + 10)) for n in range(5)]
    found = told(jobs, 3)
    for n in range(5):
        assert [value for name, value in found if name == str(n)] == [n, n + 10, (None,)]


def test_what_is_done_ahead_is_done_here_and_all_processes_have_it() -> None:
    done: list[int] = []

    def ahead() -> None:
        done[:] = [os.getpid()]

    def work() -> Iterator[tuple[int, bool]]:
        yield done[0], os.getpid() == done[0]

    assert told([Job("a", work, ahead=ahead), Job("b", work, ahead=ahead)], 1) == [
        *(("a", (os.getpid(), False)), ("a", (None,))),
        *(("b", (os.getpid(), False)), ("b", (None,))),
    ]


def test_a_job_that_raises_or_dies_costs_the_others_nothing() -> None:
    def raises() -> Iterator[int]:
        yield 1
        raise ValueError("no more")

    def dies() -> Iterator[int]:
        os.kill(os.getpid(), signal.SIGKILL)
        yield 1

    assert told([Job("a", raises), Job("b", dies), Job("c", lambda: says(3))], 1) == [
        ("a", 1),
        ("a", ("ValueError: no more",)),
        ("b", ("its process was killed by signal 9",)),
        ("c", 3),
        ("c", (None,)),
    ]


def for_ever() -> Iterator[int]:
    yield os.getpid()
    threading.Event().wait()


def test_a_job_that_outlives_its_time_is_ended() -> None:
    (_, pid), (_, why), *rest = told([Job("a", for_ever, 0.2), Job("b", lambda: says(1))], 1)
    assert why == ("stopped: it took more than 0.2 s",)
    assert not exists(pid)
    assert rest == [("b", 1), ("b", (None,))]


def test_nothing_is_left_when_nobody_listens_any_more() -> None:
    with closing(work_off([Job(name, for_ever) for name in "abc"], 2)) as listening:
        pids = [each.value for each in islice(listening, 2) if isinstance(each, Said)]
        assert len(pids) == 2
        assert all(map(exists, pids))
    assert not any(map(exists, pids))


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


ENDLESS = """
import itertools, os, time
from harness.processes.crew import Job, work_off

def work():
    for n in itertools.count():
        yield os.getpid()
        time.sleep(0.001)

for said in work_off([Job("a", work), Job("b", work)], 2):
    print(said.value, flush=True)
"""


def test_jobs_end_when_their_parent_was_killed() -> None:
    """Also when two of them are there, each of which has copies of all that was open."""
    assert_die_with_their_parent(ENDLESS, 2)


COMMAND = """
import sys
from harness.processes.command import Program
child = '''
import os, time
from harness.processes.command import PARENT, end_with_parent
end_with_parent()
assert PARENT not in os.environ
with open(f"/proc/{os.getppid()}/fd/1", "w") as out:
    print(os.getpid(), file=out)
time.sleep(600)
'''
Program((sys.executable, "-c", child)).run(["wait"], 600)
"""


def test_a_command_ends_when_its_parent_was_killed() -> None:
    """What a killed night has begun does not go on beside the night that is resumed."""
    assert_die_with_their_parent(COMMAND, 1)


def assert_die_with_their_parent(script: str, of_them: int) -> None:
    """Start a parent whose children print their ids, kill it, and wait until they are gone."""
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    children = set[int]()
    for line in parent.stdout:
        children.add(int(line))
        if len(children) == of_them:
            break
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline_s = time.monotonic() + 30
    while children:
        assert time.monotonic() < deadline_s, f"still there: {children}"
        children = {pid for pid in children if alive(pid)}
        time.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether a process works; one that waits for init to collect it does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
