"""``docs/nemeses.md``: which fault can be had where, in the plug-ins' own words."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from harness.contracts.environment import Address
from harness.contracts.nemesis import Cluster
from harness.envs.sim import hosts as sim
from harness.faults.choice import misfit
from harness.healing.journal import Journal
from harness.registry import environments, nemeses, systems
from harness.spec import SIM, RunSpec
from harness.store.folder import RunDir
from harness.systems.kafka.plugin import Kafka
from harness.systems.kraft.plugin import Kraft
from harness.systems.nodes.processes import DYNAMIC, QUORUM_SETTING
from tests.support.pages.docs import REMARK, page, row

SNAPSHOTS = "metadata.log.max.record.bytes.between.snapshots"
RETENTION = "metadata.max.retention.bytes"
ANYWHERE = Address("10.0.0.1", 9093)
ATTACHED = "attached"
SYSTEMS = {"kraft": Kraft, "kafka": Kafka}


def nemeses_page() -> str:
    """The page: a row for each nemesis, a column for each environment."""
    return page(_lines())


def _lines() -> Iterator[str]:
    names = [SIM, *(name for name in environments.names() if name not in (SIM, ATTACHED))]
    cells = {name: _in_simulation() if name == SIM else _in_environment(name) for name in names}
    cells |= {
        f"{name}, Kafka": _in_environment(name, "kafka")
        for name in sorted(systems.traits("kafka").envs or ())
    }
    yield from ("# Which fault can be had where", "", REMARK, "")
    yield "Our nodes, three voters and two observers of a dynamic quorum, with snapshots. A cell"
    yield "says what the fault's own `available` and the environment say. `--nemesis all` and"
    yield "families leave out what cannot be had; one that is named all the same is skipped, and"
    yield "the report says so. The last columns are of the same cluster of Apache Kafka's nodes."
    yield "Hosts are taken to have the tools that `krucible doctor` asks for. What a cluster that"
    yield "somebody else started may be given, its own file says: [attach.md](attach.md)."
    yield ""
    yield row(("nemesis", "family", *cells))
    yield "|---" * (len(cells) + 2) + "|"
    for name, factory in nemeses:
        yield row((f"`{name}`", factory().family, *(cells[where][name] for where in cells)))
    yield from _LINKS.splitlines()
    head, *rows = _NETEM_AND_QUEUE
    yield from ("", row(head), "|---" * len(head) + "|", *map(row, rows))


_LINKS = """
## Links: netem, or a queue

The family `packets` is netem's work where the sender's kernel has it, for each link by itself: it
is tried once a run, by using it for a moment on the very interface. Where it is not to be had, or
refuses, packets go through a queue of ours at the receiver (NFQUEUE). Which of them does it stands
in each fault's evidence (`by`, with `why_not_netem`, or with the kernel's own counts in `qdiscs`),
and `krucible doctor` tells it of this host and of those of `--hosts`.
"""
_SENT_AGAIN = "what is on its way is lost, and TCP sends it again"
_NETEM_AND_QUEUE = (
    ("", "netem", "NFQUEUE"),
    (
        "where",
        "the sender's interface: an htb of the run's own, under it a netem for each link",
        "the receiver's packet filter, and a process beside the node",
    ),
    (
        "needs",
        "sch_netem, sch_htb, cls_u32, and a root that is still the kernel's default",
        "xt_NFQUEUE, nfnetlink_queue, Python",
    ),
    ("chances", "the kernel's dice, which no seed decides", "drawn from a seed, packet by packet"),
    ("delay, jitter, loss, rate, jam, reordering, corruption", "yes", "yes"),
    (
        "duplication",
        "yes; newer kernels want no other netem on the interface, and the queue does it then",
        "yes",
    ),
    ("another fault on the link", _SENT_AGAIN, "what is on its way stays so"),
    ("the heal", _SENT_AGAIN, "what is on its way comes at once"),
    (
        "after a kill",
        "taken out by its handle; the kernel's default is back",
        "the process ends with the node's network or supervisor; packets pass",
    ),
)


def _spec(environment: str, system: str = "kraft") -> RunSpec:
    settings = {QUORUM_SETTING: DYNAMIC, SNAPSHOTS: "100000", RETENTION: "100000"}
    return RunSpec(seed=1, env=environment, system=system, voters=3, observers=2, settings=settings)


def _in_environment(name: str, system: str = "kraft") -> dict[str, str]:
    """The cells of an environment; it is made, and never set up."""
    spec, made = _spec(name, system), environments.get(name)
    # As if it were set up, on a host that lacks nothing: the page is the same everywhere.
    ready = {"address": lambda *_: ANYWHERE, "why_not": lambda *_: None}
    here = type(made.__name__, (made,), ready)
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal.open("page", folder=Path(folder) / "state")
        try:
            environment = here(Path(folder), journal)
            return _cells(spec, environment, Path(folder))
        finally:
            journal.close()


def _in_simulation() -> dict[str, str]:
    async def cells() -> dict[str, str]:
        spec = _spec(SIM)
        environment = sim.Sim(Random(1), lambda *_: None)
        await environment.setup([f"n{number}" for number in range(1, 6)])
        return _cells(spec, environment, Path())

    return sim.run(cells)


def _cells(spec: RunSpec, environment: Any, folder: Path) -> dict[str, str]:
    cluster = Cluster(SYSTEMS[spec.system](spec, environment, RunDir(folder)), environment)
    how = getattr(environment, "how", {})
    found = {}
    for name, factory in nemeses:
        nemesis = factory()
        reason = misfit(nemesis, spec) or nemesis.available(cluster)
        said = how.get(name) or how.get(nemesis.family)
        found[name] = f"no: {reason}" if reason else f"yes: {said}" if said else "yes"
    return found
