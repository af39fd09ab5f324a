"""The keeper hurts a node that somebody else started, and mends it whenever the harness is gone.

It knows what it has done to the node: when nobody is heard of any more, or it is told to end, the
process goes on, what was ended is started again, and our firewall chain goes.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from harness.agent import foreign, orders
from harness.agent.firewall import Refused
from harness.agent.session import SILENCE_S, Session
from harness.agent.steps import take_all

_HOLD_S = 5.0
_LEAVE_S = 60.0  # for a node that was told to end in good order
_SLOW = ("probe",)


def mend(
    target: Mapping[str, Any],
    chain: str | None,
    *,
    paused: Mapping[str, Any] | None,
    ended: Mapping[str, Any] | None,
    surely: bool = False,
    run: Callable[..., dict[str, Any]],
) -> dict[str, Any]:
    """Undo all that was done to a node; each step is taken whatever becomes of the others.

    Args:
        target: The node; see ``foreign``.
        chain: Ours in its network; None: there is none.
        paused: What ``foreign.look`` said of the process that was paused; None: it was not.
        ended: The same of the process that was told to end, or was about to be.
        surely: Whether it was: then it is ended the hard way when it is slow to go.
        run: Gives an order in the node's network.

    Returns:
        The result of each step that was taken, by its name.
    """
    steps: list[tuple[str, Callable[[], Any]]] = []
    if paused is not None:
        steps.append(("resumed", partial(foreign.resume, target, paused)))
    if chain is not None:
        steps.append(("chain", partial(_remove, target, chain, run)))
    if ended is not None:
        steps.append(("started", partial(_start_again, target, ended, surely=surely)))
    return take_all(steps)


def _start_again(target: Mapping[str, Any], who: Mapping[str, Any], *, surely: bool) -> bool:
    """Start what was told to end, once it is gone; whether it was not running."""
    if foreign.look(target)["pid"] not in (None, who.get("pid")):
        return False  # it was started meanwhile
    try:
        foreign.await_state(target, wanted="gone", timeout_s=_LEAVE_S if surely else _HOLD_S)
    except Refused:
        if not surely:
            return False  # the harness died before it was told anything
        foreign.end(target, signal.SIGKILL)
        foreign.await_state(target, wanted="gone", timeout_s=_HOLD_S)
    return foreign.start(target)


def _remove(target: Mapping[str, Any], chain: str, run: Callable[..., dict[str, Any]]) -> bool:
    """Take the chain out; the network of a container that is down took it along."""
    if "container" in target and foreign.look(target)["pid"] is None:
        return False
    return bool(run(target, "unrule", chain=chain)["chain"])


class Keeper:
    """One foreign node for one run."""

    def __init__(self, archive: str) -> None:
        """Do nothing yet; ``archive`` is the file that this agent runs from."""
        self._archive = archive
        self._session = Session(self, slow=_SLOW, tick=self._tell)
        self._target: dict[str, Any] = {}
        self._chain: str | None = None  # once there may be one
        self._paused: dict[str, Any] | None = None
        self._ended: dict[str, Any] | None = None
        self._apart = False  # whether it has a network of its own
        self._told: tuple[Any, Any] | None = None
        self._next_look = 0

    def serve(self) -> None:
        """Obey until the harness says goodbye or is gone; leave the node as it was."""
        try:
            self._session.serve()
        finally:
            if not self._session.ended:
                self._mend()

    def _mend(self) -> dict[str, Any]:
        done = mend(
            self._target,
            self._chain,
            paused=self._paused,
            ended=self._ended,
            surely=True,
            run=self._there,
        )
        self._chain, self._paused, self._ended = None, None, None
        return done

    def _tell(self) -> None:
        """Send the node's state when it has changed."""
        self._next_look = (self._next_look + 1) % 10  # an Engine is not asked all the time
        if not self._target or self._next_look:
            return
        with contextlib.suppress(Refused, OSError):
            self._say(foreign.look(self._target))

    def _say(self, now: dict[str, Any]) -> None:
        seen = (now["pid"], now["state"] if now["state"] in ("T", "gone") else "runs")
        if seen != self._told:
            self._told = seen
            self._session.say({"state": now})

    def _there(self, target: Mapping[str, Any], do: str, **arguments: Any) -> dict[str, Any]:
        """Give an order in the network that the node's process has, which may be its own."""
        pid = foreign.look(target)["pid"]
        if pid is None and ("container" in target or self._apart):
            raise Refused("it is down, and its network with it")
        if pid is None or _network(pid) == _network(os.getpid()):
            return dict(orders.obey({"do": do, **arguments}))
        return self._inside(pid, {"do": do, **arguments})

    def _inside(self, pid: int, order: dict[str, Any]) -> dict[str, Any]:
        enter = shutil.which("nsenter", path=f"{os.environ.get('PATH', '')}:/usr/bin")
        if enter is None:
            raise Refused("there is no nsenter, which enters the network of the node's process")
        with Path(self._archive).open("rb") as archive:
            agent = f"/proc/self/fd/{archive.fileno()}"
            done = subprocess.run(
                [
                    enter,
                    "-t",
                    str(pid),
                    "-n",
                    sys.executable,
                    "-I",
                    agent,
                    "order",
                    json.dumps(order),
                ],
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
                pass_fds=(archive.fileno(),),
            )
        if done.returncode:
            raise Refused(f"cannot enter the network of pid {pid}: {done.stderr.strip()[-500:]}")
        answer = json.loads(done.stdout)
        if "error" in answer:
            raise Refused(answer["error"])
        return dict(answer["ok"])

    # ---- commands

    def do_begin(self, target: dict[str, Any], silence_s: float) -> dict[str, Any]:
        """Look at the node; returns its ``state``, and why its links cannot be cut (``filter``)."""
        self._target = target
        self._session.silence_s = float(silence_s or SILENCE_S)
        now = foreign.look(target)
        self._told = (now["pid"], "runs")
        problem: str | None
        if now["pid"] is not None:
            with contextlib.suppress(Refused):
                self._apart = _network(now["pid"]) != _network(os.getpid())
        try:
            problem = self._there(target, "filter")["problem"]
        except Refused as error:
            problem = str(error)
        return {"state": now, "filter": problem, "signal": _why_not_signal(now)}

    def do_beat(self) -> None:
        """Do nothing: the call alone shows that both sides are there."""

    def do_state(self) -> dict[str, Any]:
        """Look at the node."""
        return foreign.look(self._target)

    def do_signal(self, number: int) -> dict[str, Any]:
        """Signal the node; SIGKILL, SIGSTOP and SIGCONT return once they took hold. Its state."""
        if number == signal.SIGSTOP:
            self._paused = foreign.look(self._target)
            foreign.pause(self._target)
            return foreign.await_state(self._target, wanted="stopped", timeout_s=_HOLD_S)
        if number == signal.SIGCONT:
            foreign.resume(self._target, self._paused)
            now = foreign.await_state(self._target, wanted="running", timeout_s=_HOLD_S)
            self._paused = None
            return now
        self._ended = who = foreign.look(self._target)
        foreign.end(self._target, number)
        if number == signal.SIGKILL:
            return foreign.await_state(self._target, wanted="gone", timeout_s=_HOLD_S, who=who)
        return foreign.look(self._target)

    def do_start(self) -> dict[str, Any]:
        """Start the node in its owner's way; its state. It may take a while to have a process."""
        foreign.start(self._target)
        self._ended = None
        return foreign.look(self._target)

    def do_rules(self, chain: str, rules: list[str]) -> dict[str, Any]:
        """Make our chain in the node's network so; without a rule there is none."""
        self._chain = chain
        if rules:
            return self._there(self._target, "rules", chain=chain, rules=rules)
        before = {"before": ""}
        if "container" not in self._target or foreign.look(self._target)["pid"] is not None:
            before = self._there(self._target, "counters", chain=chain)
            self._there(self._target, "unrule", chain=chain)
        self._chain = None
        return before

    def do_counters(self, chain: str) -> dict[str, Any]:
        """Count what our chain has dropped."""
        return self._there(self._target, "counters", chain=chain)

    def do_probe(self, **asked: Any) -> dict[str, Any]:
        """Send a request from the node's network; in a thread."""
        return self._there(self._target, "probe", **asked)

    def do_end(self) -> dict[str, Any]:
        """Undo everything, and end after the answer."""
        done = self._mend()
        self._session.ended = True
        return done

    def do_mend(
        self,
        target: dict[str, Any],
        chain: str | None,
        paused: dict[str, Any] | None,
        ended: dict[str, Any] | None,
    ) -> dict[str, Any]:
        """Undo what another one has done."""
        self._session.ended = True
        return mend(target, chain, paused=paused, ended=ended, run=self._there)


def _why_not_signal(now: Mapping[str, Any]) -> str | None:
    """Tell why its process cannot be signalled from here; None when it can."""
    if now["pid"] is None:
        return str(now["detail"])
    try:
        os.kill(int(now["pid"]), 0)
    except PermissionError:
        return f"pid {now['pid']} is another user's: want root, or its user"
    except ProcessLookupError:
        return f"pid {now['pid']} has just ended"
    return None


def _network(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    except OSError as error:
        raise Refused(f"the network of pid {pid} cannot be seen: {error.strerror}") from error


def run(archive: str) -> None:
    """Keep one node to the end; ``archive`` is the file that this agent runs from."""
    Keeper(archive).serve()
    sys.stdout = None  # nobody reads what is left in it
