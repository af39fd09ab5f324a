"""The plan of a night: which simulations, live runs and canaries, for how long.

A TOML file::

    budget = "8h"             # of work; what a night that was killed has used counts
    jobs = 2                  # simulations at a time; one per processor when not given
    store-limit = "20 GB"     # valid runs are dropped, the oldest first; failing ones never
    premises = ["S11"]        # invariants that must have had something to judge

    [on-failure]
    repro-times = 5           # a live failure is run again so often, a simulated one twice
    shrink = "2m"             # the time to shrink a simulated failure in; "0s" for never
    kept = 10                 # runs of one failure that are stored; all are counted

    [[sim]]                   # seeds in virtual time; what is not given is drawn from the seed
    name = "swarm"
    weight = 8                # its share of the time
    twice = 0.02              # the share of seeds that is simulated twice, for the same bytes
    save = 0.001              # the share of valid seeds that is stored
    nemesis = ["partition"]   # and system, workload, voters, observers, time-limit, rate,
    settings = {}             # concurrency, pace, moments, weather, as options of `krucible sim`

    [[explore]]               # a search that goes on from what its runs show, from slice to slice
    name = "search"
    weight = 3                # and twice, system, workload, ... as of [[sim]]

    [[live]]                  # real processes
    name = "local-register"
    weight = 2                # and system, env, workload, nemesis, ... as of `krucible run`
    settle = 10               # seconds of peace at its end
    mutant = "..."            # to see what a red night looks like; the others have it, too

    [[canary]]                # a seeded bug: not caught means a red night
    mutant = "forgotten-vote"
    budget = "2m"
    live = false              # true: real processes, as of `krucible run --mutant`

    [[canary]]                # a bug of a release: caught there, and not where it is fixed
    bug = "refused-newcomer"  # of `krucible zoo --arm releases`; live: of live-releases
    budget = "10m"

Every name and number is checked before the night begins.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from harness.catalogue import meanings
from harness.errors import UsageError
from harness.faults import choice as nemesis_names
from harness.faults import weather
from harness.faults.schedule import paced
from harness.nightly.entries import Canary, Drawn, Duration, Explore, Live, OnFailure, Sim, seconds
from harness.registry import environments, mutant_names, systems, unknown, workloads
from harness.sessions import plan as simulated
from harness.sessions.reached import is_counted
from harness.sessions.released.quarry import quarries
from harness.sessions.swarm import draw
from harness.spec import SIM, RunSpec

_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(kB|MB|GB|TB)")
_BYTES: Final = {"kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}

Size = Annotated[str, Meta(pattern=r"^\d+(\.\d+)?\s*(kB|MB|GB|TB)$")]


Entry = Sim | Explore | Live


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """A night."""

    budget: Duration = "8h"
    jobs: Annotated[int, Meta(ge=1, le=256)] | None = None
    store_limit: Size | None = None
    premises: tuple[str, ...] = ()
    on_failure: OnFailure = OnFailure()
    sim: tuple[Sim, ...] = ()
    explore: tuple[Explore, ...] = ()
    live: tuple[Live, ...] = ()
    canary: tuple[Canary, ...] = ()

    @property
    def budget_s(self) -> float:
        """Seconds of work."""
        return seconds(self.budget)

    @property
    def entries(self) -> dict[str, Entry]:
        """All simulations, searches and live runs, by their names in the ledger."""
        return {
            **{f"sim:{sim.name}": sim for sim in self.sim},
            **{f"explore:{search.name}": search for search in self.explore},
            **{f"live:{live.name}": live for live in self.live},
        }

    def share_s(self, entry: Entry) -> float:
        """Seconds of work that are an entry's by its weight."""
        weights = sum(each.weight for each in self.entries.values())
        return self.budget_s * entry.weight / weights

    @property
    def store_limit_bytes(self) -> int | None:
        """Tell how much the store may hold."""
        return None if self.store_limit is None else size(self.store_limit)

    @property
    def fingerprint(self) -> str:
        """Equal for plans that do the same: a night goes on with its own plan only."""
        return sha256(msgspec.json.encode(self, order="sorted")).hexdigest()[:16]


DEFAULT: Final = Plan(
    sim=(Sim(name="swarm", weight=6.5),),
    explore=(Explore(name="search", weight=2.5),),
    live=(
        Live(name="register", weight=0.4),
        Live(name="topics", workload="topics", weight=0.3),
        Live(name="observers", workload="observers", weight=0.3),
    ),
    canary=(Canary(mutant="forgotten-vote"), Canary(mutant="premature-high-watermark", live=True)),
)


def load(path: Path) -> Plan:
    """Read a plan and check every name in it; raises UsageError with the place of the mistake."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot read the plan: {error}") from error
    try:
        plan = msgspec.convert(tomllib.loads(text), Plan)
        check(plan)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: not TOML: {error}") from error
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {_plain(str(error))}") from error
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    return plan


def check(plan: Plan) -> None:
    """Raise UsageError for a plan that names what there is not, or that does nothing."""
    if not plan.entries:
        raise UsageError("nothing to do: want at least one [[sim]], [[explore]] or [[live]] table")
    for kind, names in (
        ("sim", [each.name for each in plan.sim]),
        ("explore", [each.name for each in plan.explore]),
        ("live", [each.name for each in plan.live]),
        ("canary", [each.name for each in plan.canary]),
    ):
        twice = [name for name, times in Counter(names).items() if times > 1]
        if twice:
            raise UsageError(f"[[{kind}]]: {twice[0]!r} is there twice; give each its own name")
    if seconds(plan.budget) <= 0:
        raise UsageError(f"budget {plan.budget!r}: want a time above 0, as in 90s, 30m or 8h")
    for name in plan.premises:
        _check_invariant(name)
    for sim in plan.sim:
        _check_drawn(f"[[sim]] {sim.name!r}", sim)
    for search in plan.explore:
        _check_drawn(f"[[explore]] {search.name!r}", search)
    for live in plan.live:
        if live.env == SIM:
            raise UsageError(f"[[live]] {live.name!r}: env {SIM!r} belongs into a [[sim]] table")
        _check_spec(f"[[live]] {live.name!r}", live.spec(1), live.nemesis)
    canaries_s = sum(canary.budget_s for canary in plan.canary)
    if canaries_s >= plan.budget_s:
        raise UsageError(
            f"budget {plan.budget!r}: the canaries alone may take {canaries_s:g} s; give them less "
            "time, or the night a larger budget"
        )
    for canary in plan.canary:
        try:
            _check_canary(canary)
        except UsageError as error:
            raise UsageError(f"[[canary]]: {error}") from error


def _check_canary(canary: Canary) -> None:
    """Raise UsageError where there is no such bug, or none that can be hunted."""
    if (canary.mutant is None) is (canary.bug is None):
        raise UsageError("want either a mutant or a bug of a release")
    _check_mutant(canary.mutant, "kraft")
    workloads.get(canary.workload)
    if canary.bug is not None:
        there = [each.bug.name for each in quarries(live=canary.live)]
        if canary.bug not in there:
            kind = "bug that is hunted in processes" if canary.live else "bug"
            raise UsageError(unknown(kind, canary.bug, there))


def _check_invariant(name: str) -> None:
    if name not in meanings() or not is_counted(name):
        counted = list(filter(is_counted, meanings()))
        raise UsageError(f"premises: {unknown('invariant', name, counted)}")


def _check_drawn(place: str, entry: Drawn) -> None:
    try:
        spec = draw(1, entry.pinned())
        simulated.Plan.simulated(spec, asked_for=entry.asked_for)
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from error
    _check_spec(place, spec, entry.nemesis or ())


def _check_spec(place: str, spec: RunSpec, nemesis: Sequence[str]) -> None:
    try:
        systems.traits(spec.system).of(spec).check_settings(spec.settings)
        if spec.env != SIM:
            environments.get(spec.env)
        workloads.get(spec.workload)(replace(spec, seed=1))
        _check_mutant(spec.mutant, spec.system)
        paced(spec.pace)
        weather.faults(spec.weather, spec.time_limit_s, 0)
        nemesis_names.select(nemesis, spec)
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from error


def _check_mutant(name: str | None, system: str) -> None:
    there = mutant_names(system)
    if name is not None and name not in there:
        raise UsageError(unknown("mutant", name, there))


def size(text: str) -> int:
    """A size in bytes; raises UsageError."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r}: want a size, as in 500 MB or 20 GB")
    return int(float(match[1]) * _BYTES[match[2]])


def _plain(message: str) -> str:
    """A message of the validator with the place in the file's own words."""
    return (
        message.replace(" - at `$.", " in `")
        .replace("`$`", "the plan")
        .replace("Object contains unknown field", "there is no setting")
        .replace("Object missing required field", "missing setting")
    )
