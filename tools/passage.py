"""Counts the files that a Fetch and a fault pass through (``python -m tools.passage``).

Both are traced as they run, so the figures are of what a tree does, whatever it looks like:

* A *Fetch* of an observer, from its bytes on the socket of a real node to the answer on the socket.
  The files in which a function was called in each of many such Fetches: what a timer did meanwhile
  is in some of them only.
* A *fault* of the simulator, a leader cut off from all others, from the draw of the schedule to the
  end of its heal. The files with a function that was given the fault or returned it, alone or among
  others, or that was called beneath the nemesis that has it, in a task that it began or not.

A tree is run in a process of its own, by the programs that its ``pyproject.toml`` names. Only files
of the product count; those of the standard library and of others do not.
"""

from __future__ import annotations

import argparse
import dis
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from io import BytesIO, RawIOBase
from pathlib import Path
from types import CoroutineType, FrameType
from typing import Any, Final
from uuid import UUID

from kio.schema.fetch.v17 import request, response
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.schema.types import BrokerId
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32, i32Timedelta, i64

ROOT: Final = Path(__file__).resolve().parents[1]
HOST: Final = "127.0.0.1"
FETCHES: Final = 20
AFTER_S: Final = 0.01  # for what a node does once the answer is out
RUN_S: Final = 300.0  # for a traced process, which is a few times slower than others
STARTUP_S: Final = 60.0
ANSWER_S: Final = 20.0
METADATA: Final = UUID(int=1)  # the topic __cluster_metadata
CLUSTER: Final = "passage"
NEMESIS: Final = "partition-isolate-leader"
SIMULATED: Final = (
    *("sim", "--seed", "1", "--nemesis", NEMESIS, "--voters", "3", "--observers", "0"),
    *("--workload", "register", "--time-limit", "8", "--rate", "5", "--concurrency", "2"),
)
WHAT: Final = ("fetch", "fault")
Program = Callable[[], object]  # takes its arguments from ``sys.argv``
LABEL: Final = "passage: "  # before the line that a traced process says last


def figures(root: Path) -> list[tuple[str, str]]:
    """Count the files that a Fetch and a fault pass, and their lines; empty for a partial tree."""
    if not (root / "pyproject.toml").is_file():
        return []
    return [
        (f"files that a {what} passes", f"{len(files)}, of {_lines(root, files):,} lines")
        for what in WHAT
        for files in [passages(root, what)]
    ]


def _lines(root: Path, files: Iterable[str]) -> int:
    return sum(len((root / file).read_bytes().splitlines()) for file in files)


def passages(root: Path, what: str) -> list[str]:
    """The files that a Fetch or a fault passes through in a tree, from its root.

    Raises:
        RuntimeError: The tree does not run, or brings none about.
    """
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-P", __file__, "--root", str(root), "--inside", what],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=False,
        )
    last = done.stdout.strip().rpartition("\n")[2]
    if done.returncode or not last.startswith(LABEL):
        raise RuntimeError(f"{root}: no passage of a {what}: {done.stderr[-2000:]}")
    files: list[str] = json.loads(last.removeprefix(LABEL))
    return files


class Watch:
    """Takes note of the product's files; a profile function of the interpreter."""

    def __init__(self, root: Path) -> None:
        self._prefix = f"{root}/"
        product = _project(root)["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
        self._folders = tuple(f"{self._prefix}{folder}/" for folder in product)
        self._names: dict[str, str | None] = {}  # by file name: from the root, None: not ours

    def name_of(self, frame: FrameType) -> str | None:
        """The file that a frame runs, from the root; None when it is not the product's."""
        file = frame.f_code.co_filename
        if file not in self._names:
            ours = file.startswith(self._folders)
            self._names[file] = file.removeprefix(self._prefix) if ours else None
        return self._names[file]

    def stack(self, frame: FrameType | None) -> Iterator[FrameType]:
        """The product's frames from here up to the root of the stack."""
        while frame is not None:
            if self.name_of(frame) is not None:
                yield frame
            frame = frame.f_back


# --------------------------------------------------------------------------- a Fetch


class FetchWatch(Watch):
    """The files of one Fetch after the other."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.seen: set[str] | None = None  # None: no Fetch is under way

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Take note of a call."""
        seen = self.seen
        if seen is not None and event == "call" and (name := self.name_of(frame)) is not None:
            seen.add(name)


def trace_fetch(root: Path, main: Program) -> list[str]:
    """Run a node in this process, and Fetch from it; the files of all Fetches."""
    with socket.socket() as free:
        free.bind((HOST, 0))
        port: int = free.getsockname()[1]
    config = Path("node.properties").absolute()
    settings = {
        "node.id": 1,
        "process.roles": "controller",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"CONTROLLER://{HOST}:{port}",
        "controller.quorum.bootstrap.servers": f"{HOST}:{port}",
        "log.dirs": Path("data").absolute(),
    }
    config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    _run(main, ["format", "--config", str(config), "--cluster-id", CLUSTER, "--standalone"])
    watch, found, problems = FetchWatch(root), list[set[str]](), list[BaseException]()

    def client() -> None:
        try:
            found.extend(_fetch_all(port, watch))
        except BaseException as error:
            problems.append(error)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=client)
    thread.start()
    threading.setprofile(watch)  # of threads that the node starts
    sys.setprofile(watch)
    try:
        _run(main, ["run", "--config", str(config)])
    finally:
        sys.setprofile(None)
    thread.join()
    if problems:
        raise problems[0]
    return sorted(set.intersection(*found))


def _fetch_all(port: int, watch: FetchWatch) -> Iterator[set[str]]:
    """Fetch so often from the node, once it leads; the files of each Fetch."""
    deadline_s = time.monotonic() + STARTUP_S
    while True:
        try:
            with socket.create_connection((HOST, port), timeout=ANSWER_S) as link:
                while not _fetch(link, 0):
                    if time.monotonic() > deadline_s:
                        raise TimeoutError("the node does not lead")
                    time.sleep(0.05)
                for number in range(FETCHES):
                    watch.seen = seen = set[str]()
                    records = _fetch(link, number)
                    time.sleep(AFTER_S)
                    watch.seen = None
                    if not records:
                        raise RuntimeError("a Fetch brought no records")
                    yield seen
                return
        except ConnectionRefusedError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.05)


def _fetch(link: socket.socket, number: int) -> int:
    """One Fetch from the beginning of the log; how many bytes of records came."""
    answer = _ask(link, _request(number))
    _, end = entity_reader(ResponseHeader)(answer, 0)
    body, _ = entity_reader(response.FetchResponse)(answer, end)
    if body.error_code:
        raise RuntimeError(f"a Fetch was refused: {body}")
    records = [part.records for topic in body.responses for part in topic.partitions]
    return sum(len(each) for each in records if each)


def _request(number: int) -> bytes:
    """A Fetch of an observer, as bytes."""
    header = RequestHeader(
        request_api_key=i16(request.FetchRequest.__api_key__),
        request_api_version=request.FetchRequest.__version__,
        correlation_id=i32(number),
        client_id=CLUSTER,
    )
    part = request.FetchPartition(
        partition=i32(0),
        current_leader_epoch=i32(1),  # the first
        fetch_offset=i64(0),
        last_fetched_epoch=i32(0),
        partition_max_bytes=i32(1 << 20),
        replica_directory_id=UUID(int=77),
    )
    body = request.FetchRequest(
        cluster_id=CLUSTER,
        replica_state=request.ReplicaState(replica_id=BrokerId(7)),
        max_wait=i32Timedelta.parse(timedelta(0)),
        min_bytes=i32(0),
        topics=(request.FetchTopic(topic_id=METADATA, partitions=(part,)),),
        forgotten_topics_data=(),
    )
    buffer = BytesIO()
    entity_writer(RequestHeader)(buffer, header)
    entity_writer(request.FetchRequest)(buffer, body)
    return buffer.getvalue()


def _ask(link: socket.socket, asked: bytes) -> bytes:
    link.sendall(len(asked).to_bytes(4) + asked)
    with link.makefile("rb", buffering=0) as answers:
        size = int.from_bytes(_exactly(answers, 4))
        return _exactly(answers, size)


def _exactly(stream: RawIOBase, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = stream.read(size - len(data))
        if not more:
            raise RuntimeError("the node hung up")
        data += more
    return data


# --------------------------------------------------------------------------- a fault


class FaultWatch(Watch):
    """The files of the first fault that is healed."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.seen: set[str] = set()
        self.over = False
        self._tasks: set[FrameType] = set()  # begun beneath the nemesis

    def __call__(self, frame: FrameType, event: str, value: Any) -> None:
        """Take note of whoever has the fault, and of all beneath the nemesis that has it."""
        if event not in ("call", "return"):
            return
        name = self.name_of(frame)
        if name is None:
            return
        beneath = bool(self.seen) and self._beneath(frame)  # of a fault that somebody had
        given = event == "call" and any(map(_has_fault, frame.f_locals.values()))
        if beneath or given or (event == "return" and _has_fault(value)):
            self.seen.add(name)
        if beneath and event == "call" and frame.f_code.co_name == "create_task":
            begun = [v for v in frame.f_locals.values() if isinstance(v, CoroutineType)]
            self._tasks.update(filter(None, (each.cr_frame for each in begun)))
        self.over = event == "return" and self._is_heal(frame) and _is_done(frame)
        if self.over:
            sys.setprofile(None)  # the rest of the run is the quicker for it

    def _beneath(self, frame: FrameType) -> bool:
        above: FrameType | None = frame
        while above is not None:  # plainly, for it is asked at every call
            name = self.name_of(above)
            if (
                name is not None
                and (above in self._tasks or _is_nemesis(name))
                and (above in self._tasks or _of_fault(above))
            ):
                return True
            above = above.f_back
        return False

    def _is_heal(self, frame: FrameType) -> bool:
        of_nemesis = _is_nemesis(self.name_of(frame))
        return of_nemesis and frame.f_code.co_name == "heal" and _of_fault(frame)


def _is_nemesis(name: str | None) -> bool:
    return name is not None and name.startswith("nemesis/")


def _is_fault(value: object) -> bool:
    return type(value).__name__ == "Fault"


def _has_fault(value: object) -> bool:
    """Tell whether a value is a fault, or a list, tuple or dictionary with one."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return any(map(_is_fault, value))
    return _is_fault(value)


def _of_fault(frame: FrameType) -> bool:
    return any(map(_is_fault, frame.f_locals.values()))


def _is_done(frame: FrameType) -> bool:
    """Tell whether a coroutine returns for good, instead of waiting for something."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]] == "RETURN_VALUE"


def trace_fault(root: Path, main: Program) -> list[str]:
    """Simulate a run in this process; the files of its first fault."""
    watch = FaultWatch(root)
    sys.setprofile(watch)
    try:
        _run(main, [*SIMULATED, "--store", "store"])
    finally:
        sys.setprofile(None)
    if not watch.over:
        raise RuntimeError("no fault was healed")
    return sorted(watch.seen)


# --------------------------------------------------------------------------- inside, outside


def _run(main: Program, argv: list[str]) -> None:
    """Run a program to its end; raises RuntimeError when it fails."""
    sys.argv[1:] = argv
    try:
        code = main()
    except SystemExit as ended:
        code = ended.code
    if code:
        raise RuntimeError(f"{' '.join(argv)} ended with {code}")


def _program(root: Path, name: str) -> Program:
    """A program of the tree, as its ``pyproject.toml`` names it."""
    module, _, function = _project(root)["project"]["scripts"][name].partition(":")
    found: Program = getattr(importlib.import_module(module), function)
    return found


def _project(root: Path) -> dict[str, Any]:
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))


def _inside(root: Path, what: str) -> list[str]:
    """The files of a passage through the tree that this process has on its path."""
    if what == "fetch":
        return trace_fetch(root, _program(root, "krucible-node"))
    return trace_fault(root, _program(root, "krucible"))


def main() -> None:
    """Print the files of a tree, those of a Fetch and of a fault."""
    parser = argparse.ArgumentParser(prog="tools.passage", description=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT, help="another tree of this project")
    parser.add_argument("--inside", choices=WHAT, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    root = asked.root.resolve()
    if asked.inside:
        files = _inside(root, asked.inside)
        print(f"\n{LABEL}{json.dumps(files)}")
        return
    for what in WHAT:
        files = passages(root, what)
        print(f"{what}: {len(files)} files, {_lines(root, files):,} lines")
        print(*(f"  {file}" for file in files), sep="\n")


if __name__ == "__main__":
    main()
