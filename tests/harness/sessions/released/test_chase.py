"""The zoo's arm of releases: what counts as caught, and what the fixed release must not do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from harness.contracts.released import ReleasedBug
from harness.errors import UsageError
from harness.registry import released_bugs, systems
from harness.sessions.released.chase import Chase, Played, chase
from harness.sessions.released.quarry import Quarry
from harness.systems.kafka.releases import KNOWN, VERSION, line_of

BUG = ReleasedBug(
    name="bug",
    source="a test",
    affected="4.1.2",
    fixed="4.2.0",
    breaks=("L8", "L1"),
    setting={"workload": "register", "settings": {"krucible.quorum": "dynamic"}},
)
Told = dict[tuple[str, int], tuple[str, ...]]  # invariants that a release breaks with a seed


def last(chases: Iterable[Chase]) -> Chase:
    *_, over = chases
    return over


def hunted(told: Told, bug: ReleasedBug = BUG, **known: int) -> Chase:
    """Until it is caught, or for three seeds."""
    seeds: list[int] = []

    def played(quarry: Quarry, seed: int, release: str) -> tuple[Played, None]:
        assert quarry.spec(seed, release).settings[VERSION] == release
        seeds.append(seed)
        names = told.get((release, seed), ())
        found = frozenset(known) if release == bug.affected else frozenset[str]()
        return Played({name: f"{name} of {release}" for name in names}, found), None

    over: Chase | None = None
    for over in chase(Quarry("kafka", bug), 60, played):
        if over.tried == 3:
            break
    assert over is not None
    assert seeds == [seed for seed in range(1, over.tried + 1) for _ in range(2)]
    return over


def test_a_bug_is_caught_by_what_it_breaks_and_the_fixed_release_is_green() -> None:
    told = hunted({("4.1.2", 1): ("S1",), ("4.1.2", 2): ("L8", "S1")})
    assert (told.caught_by, told.seed, told.tried) == (["L8"], 2, 2)
    assert (told.said, told.wrong, told.alarms) == ("L8 of 4.1.2", {"S1": 1}, {})


def test_a_catch_for_the_wrong_reason_does_not_count() -> None:
    told = hunted({("4.1.2", 1): ("S1",)})
    assert (told.caught, told.seed, told.wrong) == (False, None, {"S1": 1})


def test_the_fixed_release_must_not_break_it_on_the_same_seeds() -> None:
    told = hunted({("4.2.0", 1): ("L1", "S3"), ("4.1.2", 2): ("L8",)})
    assert (told.alarms, told.others) == ({"L1": 1}, {"S3": 1})
    assert told.caught


def test_what_is_known_of_a_release_is_caught_too() -> None:
    told = hunted({}, replace(BUG, known="finding"), finding=3)
    assert (told.caught_by, told.said) == (["L8", "L1"], "finding")
    assert not hunted({}, finding=3).caught


def test_a_seed_is_the_same_for_both_releases() -> None:
    quarry = Quarry("kafka", BUG)
    specs = [quarry.spec(7, release) for release in ("4.1.2", "4.2.0")]
    bare: list[Any] = [
        replace(s, settings={k: v for k, v in s.settings.items() if k != VERSION}) for s in specs
    ]
    assert bare[0] == bare[1]
    assert specs[0].stop_at == BUG.breaks
    assert specs[0].workload == "register"


def never(quarry: Quarry, seed: int, release: str) -> tuple[None, str]:
    raise AssertionError(f"{quarry.bug.name} was played: {seed}, {release}")


def test_a_bug_that_no_release_has_fixed_is_not_hunted() -> None:
    with pytest.raises(UsageError, match="no release has it fixed"):
        next(chase(Quarry("kafka", replace(BUG, fixed=None)), 1, never))


@pytest.mark.parametrize("bug", [bug for _, bug in released_bugs()], ids=lambda bug: str(bug.name))
def test_entries_name_what_exists(bug: ReleasedBug) -> None:
    """Releases that run, and options that go together; else why it is not hunted."""
    if bug.is_hunted_live:
        live = Quarry("kafka", bug).live_spec(1, bug.affected)
        systems.traits("kafka").of(live).check_settings(live.settings)
        assert live.workload in (systems.traits("kafka").workloads or ())
    if not bug.is_hunted:
        assert bug.cannot
        assert not bug.setting
        return
    releases = [each for each in (bug.affected, bug.fixed) if each is not None]
    assert set(map(line_of, releases)) <= set(map(line_of, KNOWN))
    spec = Quarry("kafka", bug).spec(1, bug.affected)
    assert set(bug.setting) <= {*spec.to_json(), "settings"}
    assert bool(bug.setting) == bool(bug.narrowed), "say what is narrowed"
