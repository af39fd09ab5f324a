"""Sums up a night: its reasons to be red, its exit code, its summary and its JUnit file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.catalogue import full_name, place
from harness.nightly import saturation
from harness.nightly.arguments import canary_arguments
from harness.nightly.entries import Live
from harness.nightly.headline import sentences
from harness.nightly.junit import Case, Suite
from harness.nightly.ledger import LIVE, NO_FAILURE, Failing, Line, Night, unit_of
from harness.nightly.plan import Plan
from harness.nightly.proportion import wilson
from harness.processes.command import Program
from harness.sessions.reached import WANTED, never, unmet
from harness.sessions.released.quarry import ARM, LIVE_ARM
from harness.store.folder import words_of
from harness.store.home import home_of
from harness.verdict import EXIT_HARNESS, EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID

SEEDS_FOR_COVERAGE: Final = 300  # fewer of the whole swarm need not reach all that is wanted


@dataclass(frozen=True, slots=True)
class Red:
    """A reason why a night is not green: what, and the exit code that it asks for."""

    code: int
    reason: str


def reds(plan: Plan, night: Night) -> list[Red]:
    """Every reason, the worst first: invalid, then a harness not to be trusted, then doubt."""
    return sorted(_reds(plan, night), key=lambda red: _SEVERITY.index(red.code))


def exit_code(plan: Plan, night: Night) -> int:
    """The worst reason's; 0 when there is none."""
    found = reds(plan, night)
    return found[0].code if found else EXIT_VALID


_SEVERITY: Final = (EXIT_INVALID, EXIT_HARNESS, EXIT_UNKNOWN)


def _reds(plan: Plan, night: Night) -> Iterator[Red]:
    for failing in night.news_first:
        code = EXIT_INVALID if failing.verdict == "invalid" else EXIT_UNKNOWN
        if failing.verdict not in NO_FAILURE:
            yield Red(code, sentence(failing))
    for name, canary in night.canaries.items():
        if not canary["caught"]:
            yield Red(EXIT_HARNESS, f"canary {name} was not caught: {canary['why']}")
    for wanted in plan.canary:
        if wanted.name not in night.canaries:
            yield Red(EXIT_UNKNOWN, f"canary {wanted.name} was not tried")
    if night.different:
        runs = ", ".join(night.different[:5])
        yield Red(EXIT_HARNESS, f"not the same bytes twice: {runs}")
    for reason in dict.fromkeys(night.broken):
        yield Red(EXIT_HARNESS, f"the harness broke: {reason}")
    if not night.histories:
        yield Red(EXIT_UNKNOWN, "no history was checked")
    missing = coverage(plan, night)
    if missing:
        yield Red(EXIT_UNKNOWN, f"coverage: never happened: {', '.join(missing)}")
    for name in premises_missing(plan, night):
        yield Red(EXIT_UNKNOWN, _idle(night, name))


def _idle(night: Night, name: str) -> str:
    """Tell in a sentence that an invariant had nothing to judge."""
    each = night.reach.premises.get(name)
    runs = f"{each.watched:,} runs were watched for it" if each else "no run was watched for it"
    return f"coverage: the premise of {full_name(name)} never came true; {runs}"


def premises_missing(plan: Plan, night: Night) -> list[str]:
    """Name the invariants whose premise should have come true and never did.

    Those that the plan names; and, of a night with enough seeds of the whole swarm, all that as
    many runs were watched for.
    """
    premises = night.reach.premises
    enough = seeds_of_all(plan, night) >= SEEDS_FOR_COVERAGE
    missing = unmet(premises, SEEDS_FOR_COVERAGE) if enough else []
    named = [name for name in plan.premises if name not in premises or not premises[name].runs]
    return sorted({*missing, *named}, key=place)


def coverage(plan: Plan, night: Night) -> list[str] | None:
    """Find what the whole swarm should have reached and has not; None when it had too few seeds."""
    return None if seeds_of_all(plan, night) < SEEDS_FOR_COVERAGE else never(night.reach.counts)


def seeds_of_all(plan: Plan, night: Night) -> int:
    """Seeds of the whole swarm: only these answer for coverage."""
    whole = [
        name
        for name, entry in plan.entries.items()
        if not isinstance(entry, Live) and not entry.pinned()
    ]
    return sum(len(night.seeds.get(name, ())) for name in whole)


def skipped(plan: Plan, night: Night) -> dict[str, str]:
    """Tell why entries and canaries of the plan had no run, by their names in the ledger."""
    tried = night.canaries
    canaries = {
        f"canary:{each.name}": "the night did not try it"
        for each in plan.canary
        if each.name not in tried
    }
    return {**night.skipped, **canaries}


def sentence(failing: Failing) -> str:
    """A failure in one sentence."""
    unit = unit_of(failing.entry)
    seeds = (
        f"1 run, {unit} {failing.first_seed}"
        if failing.times == 1
        else f"{failing.times:,} runs, {unit}s {failing.first_seed} to {failing.last_seed}"
    )
    broke = ", ".join(failing.invariants)
    what = f"{broke} broken" if broke else _DOUBTS.get(failing.verdict, failing.verdict)
    message = f": {failing.message}" if failing.message else ""
    known = f"; known: {'; '.join(failing.findings)}" if failing.findings else ""
    return f"{failing.entry}: {what} ({seeds}{known}){message}"


_DOUBTS: Final = {"unknown": "in doubt"}


def summary(
    plan: Plan, night: Night, store: Path, program: Program, *, code: int
) -> dict[str, Any]:
    """The night as one JSON object; parameters as of ``suites``."""
    missing = coverage(plan, night)
    hunts = _hunts(plan, night, store, program)
    told = {
        "exit_code": code,
        "reasons": [red.reason for red in reds(plan, night)],
        "begun": night.begun.get("at"),
        "plan": night.begun.get("plan"),
        "first_seed": night.begun.get("first_seed"),
        "resumed": night.resumed,
        "used_s": round(night.used_s, 3),
        "budget_s": plan.budget_s,
        "histories": night.histories,
        "simulated_s": round(night.simulated_s, 3),
        "entries": {
            name: {
                "runs": len(night.seeds[name]),
                "verdicts": dict(night.verdicts[name]),
                "used_s": round(night.spent_s.get(name, 0.0), 3),
                "mutant": entry.mutant,
            }
            for name, entry in plan.entries.items()
            if night.seeds.get(name)
        },
        "skipped": skipped(plan, night),
        "failing": [
            _failing(each, plan.entries[each.entry].mutant, program) for each in night.news_first
        ],
        "canaries": {
            name: {**told, "command": hunts.get(name)} for name, told in night.canaries.items()
        },
        "not_tried": [each.name for each in plan.canary if each.name not in night.canaries],
        "known": {
            finding: [each.runs, each.times]
            for finding, each in sorted(
                night.known.items(), key=lambda item: (-item[1].runs, item[0])
            )
        },
        "twice": night.twice,
        "not_same_bytes": night.different,
        "harness_errors": list(dict.fromkeys(night.broken)),
        "reached": dict(sorted(night.reach.counts.items())),
        "never": missing,
        "coverage": {
            "seeds": seeds_of_all(plan, night),
            "seeds_needed": SEEDS_FOR_COVERAGE,
            "wanted": len(WANTED),
            "not_reached": never(night.reach.counts),
        },
        "premises": {
            name: [each.times, each.runs, each.watched]
            for name, each in sorted(night.reach.premises.items(), key=lambda item: place(item[0]))
        },
        "premises_unmet": unmet(night.reach.premises),
        "premises_missing": premises_missing(plan, night),
        "features": saturation.told(night),
        "dropped_runs": night.dropped,
    }
    return {"headline": " ".join(sentences(told)), **told}


def _failing(failing: Failing, mutant: str | None, program: Program) -> dict[str, Any]:
    again = failing.again
    interval = None
    if again is not None and again["times"] and failing.entry.startswith(LIVE):
        interval = wilson(again["reproduced"], again["times"])
    return {
        "entry": failing.entry,
        "verdict": failing.verdict,
        "invariants": list(failing.invariants),
        "signature": failing.signature,
        "mutant": mutant,
        "message": failing.message,
        "findings": list(failing.findings),
        "times": failing.times,
        "first_seed": failing.first_seed,
        "last_seed": failing.last_seed,
        "runs": failing.runs,
        "reproduced": None if again is None else [again["reproduced"], again["times"]],
        "interval_95": interval,
        "shrunk": None if failing.shrunk is None else failing.shrunk.get("store"),
        "commands": commands(failing, program),
    }


# --------------------------------------------------------------------------- JUnit


def suites(plan: Plan, night: Night, store: Path, program: Program) -> list[Suite]:
    """The night as suites: one for each entry, one for the canaries, one for the harness.

    Args:
        plan: What was to be done.
        night: What was done.
        store: The folder of its runs.
        program: The command line as a person types it.
    """
    found = [Suite(entry, tuple(_entry(night, entry, program))) for entry in sorted(night.seeds)]
    hunts = _hunts(plan, night, store, program)
    canaries = [_canary(name, told, hunts.get(name)) for name, told in night.canaries.items()]
    if canaries:
        found.append(Suite("canaries", tuple(canaries)))
    different = f"not the same bytes: {', '.join(night.different)}" if night.different else None
    broken = "\n".join(dict.fromkeys(night.broken)) or None
    missing = coverage(plan, night)
    idle = [_idle(night, name) for name in premises_missing(plan, night)]
    harness = (
        Case(f"{night.twice} seeds twice, the same bytes", failure=different),
        Case("the harness worked", error=broken),
        Case(
            "coverage" if missing is not None else "coverage: too few seeds to tell",
            failure=f"never happened: {', '.join(missing)}" if missing else None,
        ),
        Case("premises of invariants", failure="\n".join(idle) or None),
    )
    return [*found, Suite("harness", harness)]


def _entry(night: Night, entry: str, program: Program) -> Iterator[Case]:
    valid = night.verdicts[entry]["valid"]
    yield Case(
        f"{valid} of {len(night.seeds[entry])} runs were valid", night.spent_s.get(entry, 0.0)
    )
    for failing in night.failing.values():
        if failing.entry == entry and failing.verdict not in NO_FAILURE:
            text = "\n".join([sentence(failing), *commands(failing, program)])
            name = ", ".join(failing.invariants) or failing.verdict
            if failing.verdict == "invalid":
                yield Case(name, failure=text)
            else:
                yield Case(name, error=text)


def _canary(name: str, canary: Line, hunt: str | None) -> Case:
    text = None if canary["caught"] else "\n".join(filter(None, (canary["why"], hunt)))
    return Case(name, canary["elapsed_s"], failure=text)


def _hunts(plan: Plan, night: Night, store: Path, program: Program) -> dict[str, str]:
    """The command that hunts for a seeded bug as its canary first did, by the canary's name."""
    found = {}
    for canary in plan.canary:
        words = ["zoo", "--only", canary.of, "--arm", "directed"]
        if canary.bug is not None:
            words[-1] = LIVE_ARM if canary.live else ARM
        elif canary.live:
            place = home_of(store) or store.absolute()
            words = canary_arguments(canary, night.begun["first_seed"], place)
        found[canary.name] = program.line(*words)
    return found


def commands(failing: Failing, program: Program) -> list[str]:
    """The commands that show a failure again."""
    if not failing.runs:
        return []
    words = words_of(failing.runs[0])
    lines = [program.line("repro", *words)]
    if failing.shrunk is not None and failing.shrunk.get("store"):
        shrunk = words_of(failing.shrunk["store"])
        lines.append(f"{program.line('repro', *shrunk)}  # shrunk")
    elif not failing.entry.startswith(LIVE) and failing.verdict == "invalid":
        lines.append(program.line("shrink", *words))
    return lines
