"""The supervisor runs a node on an ssh host, and ends with its harness.

The harness sends orders as JSON lines ``{"id", "do", ...}``; every one is answered by ``{"id",
"ok"}`` or ``{"id", "error"}``, see ``orders``. In between come ``{"file", "data"}``, what the node
has appended to its files, and ``{"state"}``, what the kernel says of its process. When stdin closes
or falls silent, the harness is gone: the process, our firewall chain and the run's folder go, too.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tarfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from harness.agent import java, mounts, orders
from harness.agent.clocks import find_faketime, note_clock, remove_clocks
from harness.agent.disk import Disk, kill_off
from harness.agent.files import MARK_FILE, Parts, Tail, add, pack, remove_folder
from harness.agent.firewall import Refused, filter_problem, queue_problem, remove_chain
from harness.agent.netem import lacking, remove
from harness.agent.processes import MARK_VARIABLE, Hands, Process, kill_marked, with_us
from harness.agent.session import SILENCE_S, Session
from harness.agent.steps import take_all

# Commands that take their time, and nobody else should wait for.
_SLOW = ("probe", "hands", "java", "lacking", "ask_jvm", "mounted")


def clean(folder: str, chain: str, mark: str, qdisc: int) -> dict[str, Any]:
    """Undo all that a run did here; each step is taken whatever becomes of the others."""
    steps: tuple[tuple[str, Callable[[], int]], ...] = (
        ("killed", partial(kill_marked, mark)),
        ("clocks", partial(remove_clocks, folder)),
        ("chain", partial(remove_chain, chain)),
        ("qdiscs", partial(remove, qdisc)),
        ("folder", partial(remove_folder, folder, mark)),
    )
    return take_all(steps)


class Supervisor:
    """One node's host for one run."""

    def __init__(self, archive: str) -> None:
        """Do nothing yet; ``archive`` is the file that this agent runs from."""
        self._archive = archive
        self._session = Session(self, slow=_SLOW, prepare=self._prepare, tick=self._tell)
        self._process: Process | None = None
        self._disk: Disk | None = None  # of that process
        self._next_disk: Disk | None = None  # of the next one
        self._power_lost = 0  # the exit code of a disk that lost the power
        self._broken: list[str] = []  # why disks ended that should not have
        self._hands: Hands | None = None
        self._shaper: subprocess.Popen[bytes] | None = None
        self._told: tuple[Any, Any] | None = None
        self._tails: dict[str, Tail] = {}
        self._begun: dict[str, Any] = {}

    def serve(self) -> None:
        """Obey until the harness says goodbye or is gone, then leave nothing."""
        try:
            self._session.serve()
        finally:
            if self._begun and not self._session.ended:
                self._clean()

    def _prepare(self, do: str) -> None:
        if do == "hands":
            self._reach()

    def _tell(self) -> None:
        """Send what has happened since the last look."""
        for name, tail in self._tails.items():
            if data := tail.read():
                self._send_file(name, data)
        if self._process is not None:
            now = self._look(self._process)
            seen = (now["pid"], now["state"] if now["state"] in ("T", "gone") else "runs")
            if seen != self._told:
                self._told = seen
                self._session.say({"state": now})

    def _look(self, process: Process) -> dict[str, Any]:
        """Tell the state of the node, which ends with its disk, as its disk ends with it."""
        now, disk = process.state(), self._disk
        if disk is None:
            return now
        if now["pid"] is not None and disk.has_ended:
            process.signal(signal.SIGKILL)
            now = process.state()
        if now["pid"] is None:  # what it wrote through memory is written
            self._disk = None
            if (why := disk.end(self._power_lost)) is not None:
                self._broken.append(why)
        return now

    def _send_file(self, name: str, data: bytes) -> None:
        self._session.say({"file": name, "data": base64.b64encode(data).decode()})

    def _clean(self) -> dict[str, Any]:
        if self._process is not None and self._process.end is None:
            with contextlib.suppress(OSError, Refused):
                self._process.signal(signal.SIGKILL)
        return clean(*(self._begun[key] for key in ("folder", "chain", "mark", "qdisc")))

    def _environ(self) -> dict[str, str]:
        """Tell what all that we start has in common."""
        code = str(Path(self._begun["folder"]) / "code")
        return {**os.environ, MARK_VARIABLE: self._begun["mark"], "PYTHONPATH": code}

    @property
    def _net(self) -> Path:
        """Shared with what holds packets."""
        return Path(self._begun["folder"]) / "net"

    def _reach(self) -> None:
        if self._hands is None:
            folder = str(Path(self._begun["folder"]) / "node")
            self._hands = Hands(self._begun["hands"], folder, self._environ())

    # ---- commands

    def do_begin(self, **begun: Any) -> dict[str, Any]:
        """Make the run's folder, see that the address is ours and free, say what can be done."""
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                sock.bind((begun["address"], begun["port"]))
            except OSError as error:
                where = f"{begun['address']}:{begun['port']}"
                raise Refused(f"a node cannot listen on {where}: {error.strerror}") from error
        folder = Path(begun["folder"])
        folder.mkdir(mode=0o700)
        self._begun = begun
        self._session.silence_s = float(begun.get("silence_s", SILENCE_S))
        (folder / MARK_FILE).write_text(begun["mark"])
        (folder / "node").mkdir()
        problem = filter_problem()
        return {
            "filter": problem,
            "queue": problem or queue_problem(begun["chain"]),
            "netem": lacking(),
            "faketime": find_faketime(),
            "mounts": mounts.cannot_mount(),
        }

    def do_probe(self, **asked: Any) -> dict[str, Any]:
        """See ``orders``; in a thread."""
        return orders.do_probe(**asked)

    def do_hands(self, order: dict[str, Any]) -> dict[str, Any]:
        """See ``Hands``; in a thread."""
        assert self._hands is not None, "reached for before"  # noqa: S101
        return self._hands.do(order)

    def do_state(self) -> dict[str, Any]:
        """Tell what the kernel says of the node."""
        if self._process is None:
            raise Refused("it never started")
        return self._look(self._process)

    def do_beat(self) -> None:
        """Do nothing: the call alone shows that both sides are there."""

    def do_put(self, data: str, into: str) -> None:
        """Unpack an archive of the harness's into a folder below the run's."""
        target = Path(self._begun["folder"]) / into
        target.mkdir(parents=True, exist_ok=True)
        with tarfile.open(fileobj=io.BytesIO(base64.b64decode(data)), mode="r:gz") as tar:
            for member in tar:
                file = tar.extractfile(member)
                if file is not None:
                    path = target / member.name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(file.read())

    def do_java(self, named: str | None, version_min: int) -> dict[str, Any]:
        """See ``find_java``; in a thread."""
        found, version = java.find_java(named, version_min)
        return {"java": found, "version": version}

    def do_lacking(self, files: dict[str, str]) -> dict[str, Any]:
        """Tell which files are not here with that content; in a thread."""
        return {"lacks": java.lacking(files)}

    def do_ask_jvm(self, pid: int, command: str, timeout_s: float) -> dict[str, Any]:
        """See ``ask_jvm``; in a thread."""
        return {"said": java.ask_jvm(pid, command, timeout_s)}

    def do_faketime(self) -> dict[str, Any]:
        """Give this host's libfaketime, in base64."""
        library = Path(find_faketime() or "").read_bytes()
        return {"library": base64.b64encode(library).decode()}

    def do_mount(
        self, argv: list[str], source: str, folders: list[str], log: str, power_lost: int
    ) -> None:
        """Start the server of a file system for the node's next process; see ``Disk``.

        ``folders`` are made before, ``power_lost`` is its exit code when it has lost the power.
        """
        if self._next_disk is not None:
            self._next_disk.end(power_lost)
        for each in folders:
            Path(each).mkdir(parents=True, exist_ok=True)
        self._power_lost = power_lost
        node = str(Path(self._begun["folder"]) / "node")
        self._next_disk = Disk(argv, source=source, cwd=node, log=log, environ=self._environ())

    def do_mounted(self) -> None:
        """Wait until it is mounted; in a thread."""
        assert self._next_disk is not None, "to be mounted"  # noqa: S101
        self._next_disk.wait()

    def do_start(
        self, argv: list[str], environ: dict[str, str], follow: list[str]
    ) -> dict[str, Any]:
        """Start the node's process in its folder; ``follow``: its files to send as they grow."""
        if self._process is not None and self._look(self._process)["state"] != "gone":
            raise Refused(f"it runs already: pid {self._process.pid}")
        folder = Path(self._begun["folder"])
        node, log = folder / "node", folder / "node.log"
        self._tails.setdefault("", Tail(log))
        for name in follow:
            self._tails.setdefault(name, Tail(node / name))
        variables = {**self._environ(), **environ}
        remove_clocks(str(folder))
        disk = self._next_disk
        enter = None if disk is None else disk.enter
        self._process = Process(argv, cwd=str(node), log=str(log), environ=variables, enter=enter)
        self._disk, self._next_disk = disk, None
        if "LD_PRELOAD" in environ:
            note_clock(str(folder), self._process.pid)
        state = self._process.state()
        self._told = (state["pid"], "runs")
        return state

    def do_signal(self, number: int) -> dict[str, Any]:
        """Signal the node; returns its state."""
        if self._process is None:
            raise Refused("it never started")
        self._process.signal(number)
        return self._look(self._process)

    def do_cut(self) -> dict[str, Any]:
        """Kill the node with its disk, of which nothing under way is written; returns its state."""
        if self._process is None:
            raise Refused("it never started")
        kill_off(self._process, self._disk)
        return self._look(self._process)

    def do_hold(self, held: bool) -> None:
        """See ``Disk``; nothing to do where the node is on the host's own."""
        if self._disk is not None:
            self._disk.hold(held=held)

    def do_rules(self, rules: list[str]) -> dict[str, Any]:
        """Make our chain so; returns the counters that it had."""
        return orders.do_rules(self._begun["chain"], rules)

    def do_counters(self) -> dict[str, Any]:
        """Tell what our chain has dropped."""
        return orders.do_counters(self._begun["chain"])

    def do_netem(self, order: dict[str, Any]) -> dict[str, Any]:
        """See ``orders``; with the run's handle."""
        return orders.do_netem({**order, "handle": self._begun["qdisc"]})

    def do_shaper(self, seed: str, queues: dict[str, int]) -> None:
        """Start another agent, the one that holds packets."""
        self._net.mkdir()
        with (self._net / "log").open("wb") as log, Path(self._archive).open("rb") as archive:
            agent = f"/proc/self/fd/{archive.fileno()}"
            self._shaper = subprocess.Popen(
                [sys.executable, "-I", agent, "queue", str(self._net), seed, json.dumps(queues)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environ(),
                pass_fds=(archive.fileno(),),
                preexec_fn=with_us,  # noqa: PLW1509 - as above
            )

    def do_shape(self, wanted: dict[str, Any]) -> None:
        """Have the shaper treat packets so from now on."""
        draft = self._net / "shape.draft"
        draft.write_text(json.dumps(wanted))
        draft.replace(self._net / "shape.json")

    def do_shaped(self) -> dict[str, Any]:
        """Tell what it has counted, and what it has printed last."""
        told = self._net / "counters.json"
        last = (self._net / "log").read_text().strip().rpartition("\n")[2]
        return {"told": json.loads(told.read_text()) if told.exists() else {}, "last": last}

    def do_fetch(self) -> dict[str, Any]:
        """Send the rest of the followed files, and all others of the node as an archive.

        Returns why disks of it ended that nothing had ended: ``broken``.
        """
        if not self._begun:
            return {"broken": []}
        for name, tail in self._tails.items():
            while data := tail.read():
                self._send_file(name, data)
        pack(Path(self._begun["folder"]) / "node", self._tails, self._send_part)
        return {"broken": self._broken}

    def do_refresh(self, below: str, known: dict[str, list[int]]) -> dict[str, Any]:
        """Send what has changed below a folder of the node; returns ``stamps`` of all there."""
        top, stamps = Path(self._begun["folder"]) / "node" / below, {}
        with tarfile.open(fileobj=Parts(self._send_part), mode="w|gz") as tar:
            for path in sorted(top.rglob("*")):
                with contextlib.suppress(FileNotFoundError):  # it is not any more
                    name, found = str(path.relative_to(top)), path.lstat()
                    stamp = [found.st_ino, found.st_mtime_ns, found.st_size]
                    if not stat.S_ISREG(found.st_mode):
                        continue
                    if known.get(name) != stamp:
                        add(tar, name, path.read_bytes())
                    stamps[name] = stamp
        return {"stamps": stamps}

    def _send_part(self, data: bytes) -> None:
        self._session.wind_up()  # what is taken is taken by somebody
        self._session.say({"part": base64.b64encode(data).decode(), "of": self._session.number})

    def do_end(self) -> dict[str, Any]:
        """Undo everything, and end after the answer."""
        done = self._clean() if self._begun else {}
        self._session.ended = True
        return done

    def do_clean(self, **place: Any) -> dict[str, Any]:
        """Undo what another one has left."""
        self._session.ended = True
        return clean(**place)


def run(archive: str) -> None:
    """Supervise to the end; ``archive`` is the file that this agent runs from."""
    Supervisor(archive).serve()
    sys.stdout = None  # nobody reads what is left in it
