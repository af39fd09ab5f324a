"""The plan of a run: a spec resolved into all that the run needs, the same for live and simulated.

Nothing is started here, and nothing is written. The same spec gives the same plan.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.contracts.abilities import Simulated
from harness.contracts.nemesis import Asks, Fault, Nemesis
from harness.contracts.traits import AT_REST, LINEARIZABLE, Reads
from harness.contracts.workload import LOCAL, Workload
from harness.errors import UsageError
from harness.faults import schedule
from harness.faults.choice import NONE, misfit, of_schedule, what_does_not_fit
from harness.faults.choice import plan as draw_faults
from harness.generators.generator import Draft, map_ops
from harness.registry import checkers, environments, systems, workloads
from harness.run.judge import COVERAGE, STANDARD
from harness.spec import SIM, RunSpec

LIVENESS = "liveness"  # the checker of what a simulation does when all is healed
PEACE = "peace"  # likewise, of a run with real processes


@dataclass(frozen=True, slots=True)
class Plan:
    """A run that can be begun; ``spec`` names the nemeses themselves, no families."""

    spec: RunSpec
    workload: Workload
    nemeses: Mapping[str, Nemesis]
    faults: tuple[Fault, ...]
    asked_for: bool = True  # a fault that never takes hold leaves the run's coverage unknown
    notes: tuple[str, ...] = ()  # what of --nemesis there is no time for, in sentences

    @classmethod
    def of(
        cls, spec: RunSpec, faults: Iterable[Fault] | None = None, *, asked_for: bool = True
    ) -> Plan:
        """Resolve every name and setting, and draw the schedule.

        Args:
            spec: The options; their ``env`` says whether the run is simulated.
            faults: A schedule to replay instead of drawing one from the seed.
            asked_for: Whether the nemeses were asked for, not only drawn: then those that do not
                fit the run stay, and the run says that they were missing.

        Raises:
            UsageError: An unknown name, a bad setting, or options that cannot go together.
        """
        system = systems.get(spec.system)
        spec = with_needed(spec)
        _check_fit(spec, system)
        traits = systems.traits(spec.system).of(spec)
        traits.check_settings(spec.settings)
        if (missing := traits.missing()) is not None:
            raise UsageError(missing)
        schedule.paced(spec.pace)  # a mistake in its name is told, also of a stored schedule
        workload = of_reads(workloads.get(spec.workload)(spec), traits.reads)
        drawn = faults is None
        if faults is None:
            chosen, faults = draw_faults(spec, asked_for=asked_for)
        else:
            faults = tuple(faults)
            chosen = of_schedule(faults)
            if not asked_for:
                chosen = [(name, nemesis) for name, nemesis in chosen if not misfit(nemesis, spec)]
        _check_hosts(spec, chosen)
        names = tuple(name for name, _ in chosen)
        notes: tuple[str, ...] = ()
        if drawn and asked_for:
            notes = tuple(what_does_not_fit(spec, faults))
            asked = spec.nemeses if set(spec.nemeses) - {NONE} != set(names) else None
            spec = replace(spec, asked=asked)
        spec = replace(spec, nemeses=names)
        return cls(spec, workload, dict(chosen), tuple(faults), asked_for, notes)

    @classmethod
    def simulated(
        cls, spec: RunSpec, faults: Iterable[Fault] | None = None, *, asked_for: bool = True
    ) -> Plan:
        """Plan a simulation with these options, wherever they say that they run; see ``of``."""
        return cls.of(replace(spec, env=SIM), faults, asked_for=asked_for)

    @property
    def checkers(self) -> list[str]:
        """The names of the checkers that judge the run, in their order."""
        names = checkers_of(self.spec, self.workload)
        return names if self.asked_for else [name for name in names if name != COVERAGE]


def with_needed(spec: RunSpec) -> RunSpec:
    """The options with the settings that the workload needs, where they are not set otherwise."""
    own = systems.traits(spec.system).of(spec).settings
    workload = workloads.traits(spec.workload)
    live = {} if spec.env == SIM else workload.of_processes
    needed = {**workload.settings, **live, **own}
    return replace(spec, settings={**needed, **spec.settings}) if needed else spec


def of_reads(workload: Workload, promise: Reads) -> Workload:
    """The workload with reads as a system promises them: without a barrier they are local."""
    if promise == LINEARIZABLE:
        return workload

    def local(draft: Draft) -> Draft:
        return draft._replace(f=LOCAL + draft.f) if draft.f in workload.reads else draft

    final = workload.final_generator
    return replace(
        workload,
        generator=map_ops(local, workload.generator),
        final_generator=final if final is None or promise == AT_REST else map_ops(local, final),
    )


def checkers_of(spec: RunSpec, workload: Workload) -> list[str]:
    """Name the checkers of a workload, of the system, and of every run, that can judge a run."""
    return applicable(spec, _wanted(spec, workload))


def left_out(spec: RunSpec, workload: Workload) -> dict[str, str]:
    """The checkers that would judge a run, had it left behind what they need; each with what."""
    wanted = _wanted(spec, workload)
    fit = set(applicable(spec, wanted))
    traits = systems.traits(spec.system).of(spec)
    leaves = traits.leaves | traits.leaves_with.get(spec.workload, frozenset())
    return {
        name: f"it needs the {' and '.join(sorted(checkers.needs(name) - leaves))} of the nodes"
        for name in wanted
        if name not in fit
    }


def _wanted(spec: RunSpec, workload: Workload) -> tuple[str, ...]:
    """The checkers of a workload, of the system, and of every run."""
    own = systems.traits(spec.system).of(spec).checkers
    peace = (PEACE,) if spec.settle_s > 0 else ()
    at_the_end = (LIVENESS,) if spec.env == SIM else peace
    return (*workload.checkers, *own, *at_the_end, *STANDARD)


def applicable(spec: RunSpec, names: Sequence[str]) -> list[str]:
    """Name the checkers that can judge this system: those whose ``needs`` it ``leaves`` behind."""
    traits = systems.traits(spec.system).of(spec)
    leaves = traits.leaves | traits.leaves_with.get(spec.workload, frozenset())
    return [name for name in names if checkers.needs(name) <= leaves]


def _check_fit(spec: RunSpec, system: Any) -> None:
    """Refuse what the system does not go with; a mistake in a name is told first."""
    traits = systems.traits(spec.system).of(spec)
    workloads.get(spec.workload)
    serves = workloads.traits(spec.workload).systems
    if serves is not None and spec.system not in serves:
        others = " or ".join(f"--system {name}" for name in sorted(serves))
        raise UsageError(
            f"system {spec.system!r} serves no workload {spec.workload!r}: use {others}"
        )
    if spec.env == SIM and not issubclass(system, Simulated):
        raise UsageError(f"system {spec.system!r} cannot be simulated; use --system kraft")
    releases = " and ".join(f"{name} {of}" for name, of in traits.versions.items())
    _check_among("workload", spec.workload, traits.workloads, spec.system, releases)
    if spec.env != SIM:
        environments.get(spec.env)
        _check_among("env", spec.env, traits.envs, spec.system)


def _check_hosts(spec: RunSpec, chosen: Iterable[tuple[str, Nemesis]]) -> None:
    """Refuse faults of simulated hosts that the nodes of this run do not feel."""
    if spec.env != SIM:
        return
    why_not = systems.traits(spec.system).of(spec).why_not
    for name, nemesis in chosen:
        for ability in nemesis.asks if isinstance(nemesis, Asks) else ():
            if (reason := why_not(ability, spec)) is not None:
                raise UsageError(f"--nemesis {name}: {reason}")


def _check_among(
    option: str, chosen: str, fit: Collection[str] | None, name: str, releases: str = ""
) -> None:
    if fit is not None and chosen not in fit:
        at = f", at {releases}" if releases else ""
        raise UsageError(
            f"--{option} {chosen}: system {name!r} works only with {', '.join(sorted(fit))}{at}"
        )
