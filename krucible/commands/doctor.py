"""``krucible doctor``: what this host has, what it lacks, and what to do about it."""

from __future__ import annotations

import typer
from rich.text import Text

from harness.verdict import EXIT_HARNESS, EXIT_VALID
from krucible.arguments import Attach, HostsFile
from krucible.console import Json, print_json, print_table
from krucible.doctor.checks import examine
from krucible.doctor.ssh import examine_hosts

STYLE = {"ok": "green", "warn": "yellow", "bad": "bold red"}


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        name="doctor",
        help="Check this host: what runs need, what is missing, and what earlier runs left behind. "
        "With --hosts, check the hosts of --env ssh as well; with --attach, a cluster that "
        "somebody else started: who its nodes are, how each is reached, which faults are allowed. "
        "Exits 0 when runs can work, else 255.",
        short_help="Check this host: what runs need, and what is missing.",
        epilog="Example: krucible doctor --hosts hosts.txt",
    )(doctor)


def doctor(hosts: HostsFile = None, attach: Attach = None, json: Json = False) -> int:
    """Exit 0 when a local run, and one on the hosts or the cluster, can work; 255 when not."""
    findings = examine()
    if hosts is not None:
        findings += examine_hosts(hosts)
    if attach is not None:
        from krucible.doctor.attach import examine_attached  # noqa: PLC0415 - it loads the node

        findings += examine_attached(attach)
    if json:
        print_json([finding.to_json() for finding in findings])
    else:
        rows = [
            (f.name, Text(f.status, style=STYLE[f.status]), f.detail, f.remedy or "")
            for f in findings
        ]
        print_table(("check", "status", "found", "what to do"), rows)
    return EXIT_HARNESS if any(f.status == "bad" for f in findings) else EXIT_VALID
