"""Links made slow, lossy, narrow, ... by the kernel's netem; runs where the sender of the link is.

A tree of ours hangs under the root of an interface: an htb
that lets everything pass but what filters send to a class of a link, which ends in netem. The root
has a handle of the run's own: nothing else is ever removed, and the kernel then puts its default
back. A root that somebody else has set is left alone.

Source: tc-netem(8), tc-htb(8), tc-u32(8); ``handle 0:`` in a listing is a default of the kernel's.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import Any

_SBIN = ":/usr/local/sbin:/usr/sbin:/sbin"
_DEFAULT = "0:"
_TIMEOUT_S = 10
# Wide open: a class only leads to its netem. Its tokens last for the largest packet there is.
_OPEN = "rate 10gbit burst 1mb cburst 1mb quantum 100000"
_HARMLESS = ["delay", "1us"]


class TcError(OSError):
    """The kernel, or its tool, cannot do what was asked for; the text says why."""


def change(handle: int, links: dict[str, Any]) -> dict[str, Any]:
    """Shape the links as given from now on, each by itself.

    Args:
        handle: Of our root.
        links: By the number of a link, 1 to 999: ``to`` (an IPv4 address), ``match`` (u32 words by
            filter), ``stages`` (netem words, of one netem or of two, one inside the other; none:
            leave the link alone).

    Returns:
        ``problems``: why not, of links that netem does not treat now; ``before``: ``statistics`` of
        the links as they were.
    """
    shown = _shown()
    roots = {q["dev"]: q for q in shown if q.get("root")}
    before, problems, gone = _links(handle, shown), {}, False
    for number, link in links.items():
        if number in before:
            _tc(_clearing(before[number][0]["dev"], handle, number))
            gone = True
        if link["stages"]:
            try:
                _put(handle, number, link, roots)
            except TcError as error:
                problems[number] = str(error)
                gone = True
    if gone:
        _tidy(handle)
    return {"problems": problems, "before": {n: s for n, s in before.items() if n in links}}


def statistics(handle: int) -> dict[str, list[dict[str, Any]]]:
    """Give the kernel's counts by link: one entry of ``tc -s -j qdisc show`` for each stage."""
    return _links(handle, _shown())


def remove(handle: int) -> int:
    """Take our roots out; how many there were. The kernel's defaults are back."""
    devices = _ours(handle) if _which("tc") else []
    for device in devices:
        _tc([f"qdisc del dev {device} root handle {handle:x}:"])
    return len(devices)


def attempt(handle: int, links: dict[str, Any]) -> str | None:
    """Tell why netem cannot treat these links, by really trying for a moment; None when it can."""
    tried = {number: {**link, "stages": [_HARMLESS]} for number, link in links.items()}
    try:
        problems = change(handle, tried)["problems"]
        change(handle, {number: {**link, "stages": []} for number, link in links.items()})
    except TcError as error:
        return str(error)
    return next(iter(problems.values()), None)


def lacking() -> str | None:
    """Tell why netem cannot be had here, tried in a network of its own; None when it can."""
    if _which("unshare") is None:
        return "it has no unshare: apt-get install util-linux"
    lines = [
        "qdisc add dev lo root handle 1: htb default 0",
        f"class add dev lo parent 1: classid 1:1 htb {_OPEN}",
        f"qdisc add dev lo parent 1:1 netem {' '.join(_HARMLESS)}",
        "filter add dev lo parent 1: protocol ip pref 1 u32 match ip dst 127.0.0.1/32 flowid 1:1",
    ]
    try:
        _tc(lines, wrapper=("unshare", "--net"))
    except TcError as error:
        return str(error)
    return None


# --------------------------------------------------------------------------- the tree


def _put(handle: int, number: str, link: dict[str, Any], roots: dict[str, Any]) -> None:
    """Hang a link's netems under our root; ``roots`` by interface, ours will be among them."""
    device, major, minor = _route(link["to"]), f"{handle:x}", f"{int(number):x}"
    root = roots.get(device, {})
    lines = []
    if root.get("handle") != f"{major}:":
        if root and root.get("handle") != _DEFAULT:
            raise TcError(
                f"another program has set {root['kind']} {root['handle']} at the root of {device}"
            )
        lines.append(f"qdisc add dev {device} root handle {major}: htb default 0 direct_qlen 1000")
    lines.append(f"class add dev {device} parent {major}: classid {major}:{minor} htb {_OPEN}")
    parent = f"{major}:{minor}"
    for words in link["stages"]:
        own = f"{handle + 2 * int(number) + (parent != f'{major}:{minor}'):x}"
        lines.append(
            f"qdisc add dev {device} parent {parent} handle {own}: netem {' '.join(words)}"
        )
        parent = f"{own}:1"
    lines += [
        f"filter add dev {device} parent {major}: protocol ip pref {int(number)} u32 "
        f"{' '.join(words)} flowid {major}:{minor}"
        for words in link["match"]
    ]
    try:
        _tc(lines)
    except TcError:
        _undo(device, handle, number)
        raise
    roots[device] = {"kind": "htb", "handle": f"{major}:"}


def _undo(device: str, handle: int, number: str) -> None:
    """Take out what there is of a link that could not be made: any part may be missing."""
    for line in _clearing(device, handle, number):
        try:
            _tc([line])
        except TcError:
            continue  # this part was never made


def _tidy(handle: int) -> None:
    """Take out the roots that no link is under any more."""
    shown = _shown()
    used = {stages[0]["dev"] for stages in _links(handle, shown).values()}
    for each in shown:
        ours = each.get("root") and (each["kind"], each["handle"]) == ("htb", f"{handle:x}:")
        if ours and each["dev"] not in used:
            _tc([f"qdisc del dev {each['dev']} root handle {handle:x}:"])


def _clearing(device: str, handle: int, number: str) -> list[str]:
    """First nothing goes to the link's class any more, then it and what is under it goes."""
    major = f"{handle:x}"
    return [
        f"filter del dev {device} parent {major}: protocol ip pref {int(number)} u32",
        f"class del dev {device} classid {major}:{int(number):x}",
    ]


def _route(address: str) -> str:
    """The interface that packets to an address leave by."""
    routes = _json("ip", "-j", "route", "get", address)
    device = str(routes[0].get("dev", "")) if routes else ""
    if device in ("", "lo"):
        raise TcError(
            f"packets to {address} leave by {device or 'no interface'}, which has no netem"
        )
    return device


def _shown() -> list[dict[str, Any]]:
    """List the queueing disciplines of all interfaces, with their counts, as tc tells."""
    return _json("tc", "-s", "-j", "qdisc", "show")


def _ours(handle: int) -> list[str]:
    """The interfaces with our root; any tc lists them so."""
    shown = _run([_which("tc") or "tc", "qdisc", "show"], "", name="tc").splitlines()
    begins = ["qdisc", "htb", f"{handle:x}:", "dev"]
    rows = [line.split() for line in shown]
    return [row[4] for row in rows if row[:4] == begins and row[5] == "root"]


def _links(handle: int, shown: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The stages of the links under our roots, by the number of the link."""
    below = {(each["dev"], each["parent"]): each for each in shown if each.get("parent")}
    links: dict[str, list[dict[str, Any]]] = {}
    for (device, parent), first in below.items():
        major, _, minor = parent.partition(":")
        if major == f"{handle:x}" and first["kind"] == "netem":
            stages = links[str(int(minor, 16))] = [first]
            while (deeper := below.get((device, f"{stages[-1]['handle']}1"))) is not None:
                stages.append(deeper)
    return links


# --------------------------------------------------------------------------- the tools


def _tc(lines: list[str], *, wrapper: tuple[str, ...] = ()) -> None:
    """Have tc do these lines in turn, up to the first that fails; raises TcError."""
    argv = [*wrapper, _which("tc") or "tc", "-b", "-"]
    _run(argv, "".join(f"{line}\n" for line in lines), name="tc")


def _json(tool: str, *arguments: str) -> list[dict[str, Any]]:
    said = _run([_which(tool) or tool, *arguments], "", name=tool)
    try:
        found = json.loads(said or "[]")
    except ValueError as error:
        raise TcError(f"{tool} did not answer in JSON: {said[:80]!r}") from error
    return [each for each in found if isinstance(each, dict)]


def _run(argv: list[str], text: str, *, name: str) -> str:
    try:
        done = subprocess.run(
            argv, input=text, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except FileNotFoundError as error:
        raise TcError(f"it has no {name}: apt-get install iproute2") from error
    except subprocess.TimeoutExpired as error:
        raise TcError(f"{name} does not end within {_TIMEOUT_S} s") from error
    if done.returncode:
        said = done.stderr.strip().partition("\n")[0]
        raise TcError(f"{name}: {said or f'it failed with {done.returncode}'}")
    return done.stdout


def _which(name: str) -> str | None:
    return shutil.which(name, path=os.environ.get("PATH", "") + _SBIN)


def obey(order: dict[str, Any]) -> Any:
    """Do ``{"do": "change" | "statistics" | "attempt", ...}``, the rest being its arguments."""
    works: dict[str, Any] = {"change": change, "statistics": statistics, "attempt": attempt}
    return works[order["do"]](**{key: value for key, value in order.items() if key != "do"})
