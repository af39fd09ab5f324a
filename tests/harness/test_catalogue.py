"""The catalogue of invariants: whole, in order, in words that people can read."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from dataclasses import replace

import pytest

from checkers.liveness.plugin import SNAPSHOT_SETTING
from checkers.monitor.catalogue import INVARIANTS
from checkers.partitions import log as partitions_log
from checkers.transactions.consistency import STRICT, forbidden
from harness import catalogue
from harness.contracts.meaning import Meaning
from harness.errors import UsageError
from harness.registry import checkers, models, mutants_of, systems, workloads
from harness.sessions.plan import Plan
from harness.sessions.simulated import simulate
from harness.spec import RunSpec
from node import mutants
from tests.support.simulated.judged import judged

# What a checker judges without a count of its own: as another one, by local reads, by lines.
# What is judged with another, or in live runs only.
UNCOUNTED = {"observers": {"C9", "S34"}, "log-scan": {"crash"}, "availability": {"L2"}}
NUMBERED = [f"{f}{n}" for f, last in (("S", 38), ("C", 19), ("L", 14)) for n in range(1, last + 1)]
SENTENCES = re.compile(r"(?:[A-Z][^.]*(?:\.[a-z]+[^.]*)*\. ?)+")  # a setting has dots inside

every = pytest.mark.parametrize("name", catalogue.meanings())


def test_the_catalogue_is_whole_and_in_order() -> None:
    names = list(catalogue.meanings())
    assert names[: len(NUMBERED)] == NUMBERED
    assert names[len(NUMBERED) :][:3] == ["all-or-nothing", "crash", "linearizability"]
    assert list(catalogue.entries()) == names


def test_every_anomaly_that_a_consistency_model_forbids_is_explained() -> None:
    assert {meaning.name for meaning in models.judges("list-append")} == set(forbidden(STRICT))


def test_every_anomaly_of_partitions_is_explained() -> None:
    """All that the docstring of its checker names, but the one that is always allowed."""
    named = set(re.findall(r"``([\w-]+)``", inspect.getdoc(partitions_log) or ""))
    inside = {f"int-{name}" for name in ("poll-skip", "nonmonotonic-poll", "nonmonotonic-send")}
    judged_ones = {meaning.name for meaning in models.judges("kafka")}
    wanted = named - {"kafka", "int-"} | inside | {"G1c-process", "G1c-realtime"}
    assert judged_ones == wanted - partitions_log.ALWAYS_ALLOWED


def test_names_are_in_the_order_of_their_numbers() -> None:
    names = ["crash", "L2", "S10", "C1", "S2", "linearizability", "Stranger", "S1"]
    assert sorted(names, key=catalogue.place) == [
        *("S1", "S2", "S10", "C1", "L2"),
        *("Stranger", "crash", "linearizability"),
    ]


def test_families_without_a_gap_are_told_in_short() -> None:
    names = ["S2", "crash", "S1", "S3", "C1", "C3", "L7"]
    assert catalogue.in_short(names) == ["S1 to S3", "C1", "C3", "L7", "crash"]


@every
def test_every_invariant_says_what_it_promises_and_why_that_matters(name: str) -> None:
    meaning = catalogue.meanings()[name]
    assert meaning.name == name
    for text in (meaning.promise, meaning.why):
        assert SENTENCES.fullmatch(text), text
        assert 35 <= len(text) <= 300, text
    assert meaning.source
    is_code = name in NUMBERED or name.startswith("G")
    assert bool(meaning.title) == is_code, "a name that is a word needs no title"
    assert not meaning.title.endswith(".")


@every
def test_every_invariant_is_judged(name: str) -> None:
    found = catalogue.entry(name)
    assert found.checkers or found.models
    assert set(found.checkers) <= set(checkers.names())
    if found.meaning.seen_as is not None:
        assert found.checkers == catalogue.entry(found.meaning.seen_as).checkers


def test_no_two_invariants_say_the_same() -> None:
    found = catalogue.meanings().values()
    assert Counter(m.promise for m in found).most_common(1)[0][1] == 1
    of_runs = [m.why for m in found if catalogue.entry(m.name).checkers]
    assert Counter(of_runs).most_common(1)[0][1] == 1


def test_who_judges_an_invariant_event_by_event_says_so_with_its_words() -> None:
    for each in INVARIANTS:
        assert each.meaning.name == each.name, each
        assert each.meaning in checkers.judges(each.checker), each


@pytest.mark.parametrize(
    "workload", [name for name in workloads.names() if workloads.traits(name).systems is None]
)
def test_checkers_judge_what_they_say(workload: str) -> None:
    """In a run that has all they need; what is broken is compared by the tests of the zoo."""
    spec = RunSpec(7, workload=workload, nemeses=("kill",), settings={SNAPSHOT_SETTING: "4000"})
    spec = replace(spec, time_limit_s=3.0, rate_hz=20.0, concurrency=4)
    for checker, named, said in judged(simulate(Plan.simulated(spec)).judgement):
        assert named <= said, checker
        assert said - named <= UNCOUNTED.get(checker, set()), checker


def test_each_seeded_bug_is_an_example_of_all_that_it_breaks() -> None:
    found = catalogue.entries()
    for name, mutant in mutants.load().items():
        for invariant in mutant.breaks:
            assert name in [bug.name for bug in found[invariant].bugs], invariant
    told = {bug for entry in found.values() for bug in entry.bugs}
    assert {bug.name for bug in told} == {m["name"] for s in systems.names() for m in mutants_of(s)}


def test_the_first_example_is_a_bug_that_is_there_to_break_it() -> None:
    for name, entry in catalogue.entries().items():
        first = {bug.name: mutants.get(bug.name).breaks[0] for bug in entry.bugs}
        if name in first.values():
            assert first[entry.bugs[0].name] == name


def test_a_name_is_found_in_any_case() -> None:
    assert catalogue.entry("s3") == catalogue.entry("S3")
    assert catalogue.entry("Linearizability").meaning.name == "linearizability"


def test_an_unknown_name_says_which_there_are() -> None:
    with pytest.raises(UsageError, match=r"'S99': there are S1 to S38, C1 to C19, L1 to L14, "):
        catalogue.entry("S99")


def test_the_full_name_has_the_title() -> None:
    assert catalogue.full_name("S3") == "S3 vote durability"
    assert catalogue.full_name("linearizability") == "linearizability"
    assert catalogue.full_name("of somebody else") == "of somebody else"
    assert Meaning("X1", "It holds.", "It matters.", "us", title="x").full_name == "X1 x"
