"""Checks the hosts of a hosts file for runs over ssh, as a run of ours would find them.

On each a supervisor is begun and ended again, all at once; nothing stays there. A host that cannot
have a node is ``bad``; what only some faults want is ``warn``.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.envs.links.netem import handle_of
from harness.envs.ssh.connect import Python, address_of, connect, find_python
from harness.envs.ssh.hosts import Host, load
from harness.envs.ssh.remote import SILENCE_S, Remote
from harness.errors import EnvError
from harness.healing.watchdog import silence_s
from harness.processes.procfs import identify
from krucible.doctor.finding import Finding

_SEE = "do what the message says; docs/ssh.md tells what a host needs"
_FAULTS = (  # what a supervisor tells at its beginning, which faults want it, how to get it
    (
        "filter",
        "partitions",
        "iptables",
        "log in as root, and on the host: apt-get install iptables",
    ),
    (
        "mounts",
        "disks of JVMs",
        "a file system of ours",
        "log in as root, and on the host: modprobe fuse; nodes of ours do without",
    ),
)
_NETEM = "on the host: apt-get install iproute2; modprobe sch_netem"
_PACKETS = (
    "on the host: modprobe sch_netem, or xt_NFQUEUE and nfnetlink_queue; partitions work without"
)


def examine_hosts(path: Path) -> list[Finding]:
    """Look at all hosts of a file; changes nothing there.

    Raises:
        UsageError: The file cannot be read, or something in it is wrong.
    """
    hosts = load(path)
    return asyncio.run(_examine(hosts))


async def _examine(hosts: tuple[Host, ...]) -> list[Finding]:
    found = await asyncio.gather(*(_look(host, n) for n, host in enumerate(hosts, start=1)))
    return [finding for findings in found for finding in findings]


async def _look(host: Host, number: int) -> list[Finding]:
    """One host: how far one gets with it, and what is there."""
    try:
        client = await asyncio.to_thread(connect, host)
    except EnvError as error:
        return [Finding(f"{host}", "bad", str(error), _SEE)]
    remote = Remote(host, client)
    known = "any key is accepted" if host.accept_unknown else "its key is known"
    findings = [Finding(f"{host}", "ok", f"answers, {known}")]
    try:
        python = await asyncio.to_thread(find_python, client, host)
        findings.append(Finding(f"{host} python", "ok", f"{python.path} ({_version(python)})"))
        begun = await _begin(remote, python, number)
        findings += _faults(host, begun)
    except EnvError as error:
        findings.append(Finding(f"{host} node", "bad", str(error), _SEE))
    finally:
        await remote.close()
    return findings


async def _begin(remote: Remote, python: Python, number: int) -> dict[str, Any]:
    """Tell what a supervisor says that it can do there; it is gone again."""
    host = remote.host
    address = await asyncio.to_thread(address_of, host)
    me = identify(os.getpid())
    name = f"doctor-{me.pid}-{me.start}-{number}" if me is not None else f"doctor-{number}"
    await remote.start(python.path)
    begun = await remote.call(
        "begin",
        folder=f"{host.folder.rstrip('/')}/krucible-{name}",
        chain=f"KRUCIBLE-DR{os.getpid()}-{number}",
        mark=name,
        qdisc=handle_of(name),
        address=address,
        port=host.node_port,
        silence_s=silence_s(SILENCE_S),
    )
    await remote.call("end")
    return begun


def _faults(host: Host, begun: Mapping[str, Any]) -> Iterator[Finding]:
    for key, faults, tool, remedy in _FAULTS:
        if begun[key] is None:
            yield Finding(f"{host} {faults}", "ok", f"{tool} works")
        else:
            yield Finding(f"{host} {faults}", "warn", str(begun[key]), remedy)
    yield _packets(host, begun)
    library = begun["faketime"]
    if library is not None:
        yield Finding(f"{host} clocks", "ok", str(library))
    else:
        remedy = "on the host: apt-get install faketime"
        yield Finding(f"{host} clocks", "warn", "it has no libfaketime", remedy)


def _packets(host: Host, begun: Mapping[str, Any]) -> Finding:
    """Tell what makes links slow, lossy, ... there: netem, or else NFQUEUE."""
    name, netem, queue = f"{host} packets", begun["netem"], begun["queue"]
    if netem is None:
        return Finding(name, "ok", "netem works" + ("" if queue else "; so does NFQUEUE"))
    if queue is None:
        return Finding(name, "ok", f"NFQUEUE works; no netem: {netem}", _NETEM)
    return Finding(name, "warn", f"{queue}; and no netem: {netem}", _PACKETS)


def _version(python: Python) -> str:
    return ".".join(map(str, python.version))
