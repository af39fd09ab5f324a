"""Traits of systems, environments and workloads: what is known of them before a run begins.

They are given where a plug-in registers itself, and have defaults that ask for nothing::

    @systems.register("etcd", SystemTraits(leaves=frozenset({"output"})))
    class Etcd: ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from harness.contracts.released import ReleasedBug
from harness.history.ops import Op
from harness.spec import SIM, RunSpec
from harness.verdict import Known

Settings = Mapping[str, str]

# What a client's read shows. LINEARIZABLE: all that was acknowledged before it was asked for.
# BY_NODE: the own image of the node that was asked, which is some prefix of the committed log and
# only grows while its process lives. When such a system has recovered (``await_recovery``), reads
# show all that was acknowledged before that. AT_REST: the same, of nodes whose events nobody sees:
# only reads after the recovery can be judged, and so these are asked of the controller.
Reads = Literal["linearizable", "monotonic-by-node", "linearizable-at-rest"]
LINEARIZABLE: Final = "linearizable"
BY_NODE: Final = "monotonic-by-node"
AT_REST: Final = "linearizable-at-rest"


def _takes_all(_: object) -> None:
    """Refuse nothing."""


def _takes_any(_: str) -> bool:
    return True


def _no_mutants() -> Sequence[dict[str, Any]]:
    return ()


def _no_releases() -> Sequence[ReleasedBug]:
    return ()


def _no_ranges(_: Settings) -> Mapping[str, Sequence[str]]:
    return {}


def _no_reason(*_: object) -> str | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemTraits:
    """The traits of all runs of a system.

    Attributes:
        leaves: Of ``events``, ``records``, ``output`` and ``images`` (brokers tell of theirs) what
            a run leaves behind; a checker whose ``needs`` are not among them is not asked.
        workloads: The workloads that it goes with; None: all.
        drawn: Those of them that a swarm draws where none is asked for; None: all.
        apart: Those that it draws for a few of its seeds, whatever else it would have drawn.
        observed: Those that take an observer.
        serves_clients: Whether its observers answer clients as brokers do.
        envs: The environments that it goes with; None: all.
        checkers: Judge each run of it, beside those of the workload.
        versions: Of what is under test, by name; written into the results.
        jvms: Whether its processes can be asked what a JVM can be asked.
        check_settings: Raises UsageError for bad settings, before a run is begun.
        mutants: Its seeded bugs: objects with ``name``, ``description``, ``breaks`` and ``source``;
            with ``scenario`` for the zoo.
        released: Bugs that were in releases of it, for the zoo.
        release: The setting that names the release of a run; empty: there are none.
        known: What it is known to do wrong; counted, and no anomaly of a run.
        missing: Says in one line what its runs need and this host has not; None: nothing.
        takes: Whether a setting that a swarm draws, by its name, means anything to it.
        ranges: Gives the settings of its own that a swarm draws beside others, by their names, with
            the values of each.
        why_not: Why a run with such options has not an ability of ``contracts.abilities`` though
            its class has; None when it has.
        settings: The settings that all its runs have unless they are given others; stored, so that
            a replay has them, too.
        reads: What a read promises; with "monotonic-by-node" a workload's ``reads`` are asked of
            the client's own node, as ``local-`` ops, with "linearizable-at-rest" those of its
            main phase.
        reads_with: What one promises with a workload, by its name, where that is something else.
        simulated: What it says of its simulated runs in the place of all this; None: the same.
        narrowed: What it says of runs with such settings in the place of all this; None: the same.
            It is not asked about settings that ``check_settings`` refuses.
    """

    leaves: frozenset[str] = frozenset()
    leaves_with: Mapping[str, frozenset[str]] = field(default_factory=dict)
    workloads: frozenset[str] | None = None
    drawn: frozenset[str] | None = None
    apart: tuple[str, ...] = ()
    observed: frozenset[str] = frozenset({"observers"})
    serves_clients: bool = False
    envs: frozenset[str] | None = None
    checkers: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    jvms: bool = False
    check_settings: Callable[[Settings], None] = _takes_all
    mutants: Callable[[], Sequence[dict[str, Any]]] = _no_mutants
    released: Callable[[], Sequence[ReleasedBug]] = _no_releases
    release: str = ""
    known: tuple[Known, ...] = ()
    missing: Callable[[], str | None] = _no_reason
    takes: Callable[[str], bool] = _takes_any
    ranges: Callable[[Settings], Mapping[str, Sequence[str]]] = _no_ranges
    why_not: Callable[[type, RunSpec], str | None] = _no_reason
    settings: Mapping[str, str] = field(default_factory=dict)
    reads: Reads = LINEARIZABLE
    reads_with: Mapping[str, Reads] = field(default_factory=dict)
    simulated: SystemTraits | None = None
    narrowed: Callable[[Settings], SystemTraits] | None = None

    def of(self, spec: RunSpec) -> SystemTraits:
        """Give the traits of a run with such options; raises UsageError for bad settings."""
        own = self.simulated if spec.env == SIM and self.simulated is not None else self
        fit = own.with_settings(spec.settings)
        reads = fit.reads_with.get(spec.workload, fit.reads)
        return fit if reads == fit.reads else replace(fit, reads=reads)

    def with_settings(self, settings: Settings) -> SystemTraits:
        """Give the traits of runs with such settings; raises UsageError for bad ones."""
        if self.narrowed is None:
            return self
        self.check_settings(settings)
        return self.narrowed(settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentTraits:
    """The traits of all runs in an environment.

    Attributes:
        hosts: The abilities of ``contracts.hosts`` that it has itself, as ``Disks``.
        links: Those that its net has, as ``Packets``.
        one_run_at_a_time: Whether there is room for no more.
        check_hosts: Raises UsageError when the hosts file (``--hosts``) is not right for a run;
            None: there is no such file.
        why_not: Why an ability is not to be had on this host, though it or its net has it; None
            when it is. What only a set-up finds out is told by the ``Explains`` ability.
    """

    hosts: frozenset[type] = frozenset()
    links: frozenset[type] = frozenset()
    one_run_at_a_time: bool = False
    check_hosts: Callable[[RunSpec], None] | None = None
    why_not: Callable[[type], str | None] = _no_reason


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadTraits:
    """The traits of all runs of a workload.

    Attributes:
        settings: The settings that it needs of the system; a run has them unless it is given
            others.
        of_processes: Those that it needs beside these where nodes are real processes.
        prefixed: Whether all that it makes has a name with the cluster's prefix (``Cluster``); only
            such a workload may be done on a cluster that is not ours.
        plays_brokers: Whether its clients register brokers of their own.
        on_brokers: Whether some of its clients must be those of brokers.
        sets_levels: Whether they give features levels, which all controllers must know.
        rate_hz: Ops per second of a live run that is given no other rate.
        systems: The only systems that serve what it asks for; None: it is not that special.
        refusals: The errors (``harness/kafka/errors.py``) that what its clients ask for may
            deserve, beside those of brokers that are away; None: that is not known.
        right_settings: Tells of an op whether all settings that it gives have values that they can
            take; None: it gives none, or that depends on more than the op.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    of_processes: Mapping[str, str] = field(default_factory=dict)
    prefixed: bool = False
    plays_brokers: bool = False
    on_brokers: bool = False
    sets_levels: bool = False
    rate_hz: float = 100.0
    systems: frozenset[str] | None = None
    refusals: frozenset[str] | None = None
    right_settings: Callable[[Op], bool | None] | None = None
