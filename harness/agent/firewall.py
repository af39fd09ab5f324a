"""The firewall chain of a run, on an ssh host or in a container's network."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess

_SBIN = ":/usr/local/sbin:/usr/sbin:/sbin"


class Refused(Exception):  # noqa: N818 - an answer, not a failure of ours
    """Raised when an order cannot be carried out; the text says why."""


def filter_problem() -> str | None:
    """Tell why links cannot be cut here; None when they can."""
    if os.geteuid() != 0:
        return f"its user has uid {os.geteuid()}, but iptables needs root"
    if _which("iptables") is None or _which("iptables-restore") is None:
        return "it has no iptables"
    try:
        iptables("-n", "-L", "INPUT")
    except Refused as error:
        return str(error)
    return None


def queue_problem(chain: str) -> str | None:
    """Tell why packets cannot be handed to a process here; None when they can. Our chain is new."""
    rule = f"-A {chain} -j NFQUEUE --queue-num 0 --queue-bypass"
    try:
        iptables("--noflush", restore=f"*filter\n:{chain} - [0:0]\n{rule}\nCOMMIT\n")
    except Refused as error:
        return f"its packet filter has no NFQUEUE: {error}"
    remove_chain(chain)
    return None


def iptables(*arguments: str, restore: str | None = None) -> str:
    """Run it; raises Refused with what it said."""
    name = "iptables" if restore is None else "iptables-restore"
    done = subprocess.run(
        [_which(name) or name, "-w", *arguments],
        input=restore,
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )
    if done.returncode:
        raise Refused(f"{name} {' '.join(arguments)} failed: {done.stderr.strip()}")
    return done.stdout


def has_chain(chain: str) -> bool:
    """Tell whether our chain is there."""
    try:
        iptables("-n", "-L", chain)
    except Refused:
        return False
    return True


def counters(chain: str) -> str:
    """Tell what our chain has dropped, as iptables lists it; empty when it is not there."""
    return iptables("-nvxL", chain) if has_chain(chain) else ""


def set_rules(chain: str, rules: list[str]) -> str:
    """Make the chain what ``rules`` say, at one blow; returns its counters before."""
    before = counters(chain)
    lines = "".join(f"-A {chain} {rule}\n" for rule in rules)
    iptables("--noflush", restore=f"*filter\n:{chain} - [0:0]\n{lines}COMMIT\n")
    try:
        iptables("-C", "INPUT", "-j", chain)
    except Refused:
        iptables("-I", "INPUT", "-j", chain)
    return before


def remove_chain(chain: str) -> bool:
    """Take our chain out; whether it was there. Another supervisor may be about to do the same."""
    if filter_problem() is not None or not has_chain(chain):
        return False
    with contextlib.suppress(Refused):  # until there is no such rule any more
        while True:
            iptables("-D", "INPUT", "-j", chain)
    try:
        iptables("-F", chain)
        iptables("-X", chain)
    except Refused:
        if has_chain(chain):
            raise
    return True


def _which(name: str) -> str | None:
    return shutil.which(name, path=os.environ.get("PATH", "") + _SBIN)
