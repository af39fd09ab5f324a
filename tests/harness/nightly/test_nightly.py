"""``krucible nightly``: the plan, the ledger, what is dropped, what makes a night red."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree.ElementTree import fromstring

import msgspec
import pytest

from harness.errors import UsageError
from harness.nightly import entries, ledger, outcome, plan, sims
from harness.nightly.entries import Canary
from harness.nightly.headline import length
from harness.nightly.junit import Case, Suite, to_xml
from harness.nightly.ledger import Ledger, Night
from harness.nightly.rotation import rotate
from harness.nightly.work import Worker
from harness.processes.command import KRUCIBLE, Program
from harness.sessions.plan import Plan
from harness.sessions.released.chase import Chase
from harness.sessions.simulated import SimRun, simulate
from harness.spec import RunSpec
from harness.store.folder import RunDir, Store
from harness.store.home import size_of
from harness.store.reading import load_spec
from harness.verdict import EXIT_HARNESS, EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID
from krucible.app import main
from tests.support.commands.nights import CANARY, PLAN, bad, seed_line, told_of
from tests.support.places import ROOT

QUICK = """
budget = "{budget}"
jobs = 2
[on-failure]
shrink = "5s"
[[sim]]
name = "quick"
twice = 0.5
voters = 1
observers = 0
workload = "register"
nemesis = ["none"]
time-limit = 1
rate = 40
concurrency = 1
{more}
"""


def write(folder: Path, text: str) -> Path:
    """A plan file."""
    path = folder / "plan.toml"
    path.write_text(text, encoding="utf-8")
    return path


# --------------------------------------------------------------------------- plans


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("budget = 8", "Expected `str`, got `int` in `budget`"),
        ('budget = "8 days"', "budget"),
        ("budget = ", "not TOML"),
        ("", "want at least one [[sim]], [[explore]] or [[live]]"),
        ('[[sim]]\nname = "a"\nfoo = 1', "there is no setting `foo` in `sim[0]`"),
        ("[[sim]]\nweight = 1", "missing setting `name` in `sim[0]`"),
        ('[[sim]]\nname = "a"\nweight = 0', "weight"),
        ('[[sim]]\nname = "a"\n[[sim]]\nname = "a"', "'a' is there twice"),
        (
            '[[sim]]\nname = "a"\nworkload = "registre"',
            "'a': no workload is called 'registre'",
        ),
        ('[[sim]]\nname = "a"\nnemesis = ["kil"]', "no nemesis is called 'kil'"),
        ('[[sim]]\nname = "a"\nmutant = "no-such"', "no mutant is called 'no-such'"),
        ('[[sim]]\nname = "a"\nsystem = "no-such"', "no system is called 'no-such'"),
        ('[[sim]]\nname = "a"\nsystem = "atom"', "'a': system 'atom' cannot be simulated"),
        ('[[live]]\nname = "a"\nenv = "sim"', "belongs into a [[sim]] table"),
        ('[[live]]\nname = "a"\nsystem = "krafd"', "no system is called 'krafd'"),
        (
            '[[sim]]\nname = "a"\n[[canary]]\nmutant = "x-y"',
            "[[canary]]: no mutant is called",
        ),
        (
            '[[sim]]\nname = "a"\n[[canary]]\nbug = "empty-disk"',
            "[[canary]]: no bug is called 'empty-disk'",
        ),
        (
            '[[sim]]\nname = "a"\n[[canary]]\nbudget = "1m"',
            "[[canary]]: want either a mutant or a bug of a release",
        ),
        (
            'budget = "1m"\n[[sim]]\nname = "a"\n[[canary]]\nmutant = "forgotten-vote"',
            "the canaries alone may take 120 s",
        ),
    ],
)
def test_a_plan_with_a_mistake_is_refused_with_its_place(
    tmp_path: Path, text: str, complaint: str
) -> None:
    """What, where, what to do; before anything is begun."""
    path = write(tmp_path, text)
    with pytest.raises(UsageError) as refused:
        plan.load(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert complaint in str(refused.value)


def test_a_plan_that_is_no_file_is_refused(tmp_path: Path) -> None:
    """As bad arguments."""
    with pytest.raises(UsageError, match="cannot read the plan"):
        plan.load(tmp_path / "none.toml")


def test_the_plan_of_ours_passes_its_own_checks() -> None:
    """Every name in it is there, and its canaries fit."""
    plan.check(plan.DEFAULT)


def test_entries_share_the_budget_by_their_weights() -> None:
    """So a slice of one leaves the others their time, also in a short night."""
    both = entries.Sim(name="a", weight=3), entries.Live(name="a")
    shared = plan.Plan(budget="1m", sim=both[:1], live=both[1:])
    assert list(shared.entries) == ["sim:a", "live:a"]
    assert [shared.share_s(each) for each in both] == [45.0, 15.0]


@pytest.mark.parametrize("name", ["night.toml", "hour.toml"])
def test_an_example_in_the_docs_is_a_plan(name: str) -> None:
    """With every table there is, and with seeds that answer for coverage."""
    example = plan.load(ROOT / "docs" / "examples" / name)
    assert example.live
    assert example.canary
    assert [sim for sim in example.sim if not sim.pinned()]


def test_the_night_of_kafka_is_a_plan_of_several_releases_and_environments() -> None:
    example = plan.load(ROOT / "docs" / "examples" / "kafka.toml")
    assert (
        {sim.system for sim in example.sim} == {live.system for live in example.live} == {"kafka"}
    )
    assert {live.env for live in example.live} == {"local", "docker"}
    assert len({str(live.settings.get("krucible.kafka.version")) for live in example.live}) > 2
    assert [canary for canary in example.canary if canary.bug is not None]


def chased(**told: Any) -> sims.Line:
    """The ledger line of a canary whose chase came to something."""
    so_far = Chase("refused-newcomer", "4.0.2", "4.1.2", tried=2, **told)
    return sims.chase_line(Canary(bug="refused-newcomer"), so_far)


def test_a_canary_of_a_release_is_caught_where_it_is_and_not_where_it_is_fixed() -> None:
    caught = chased(caught_by=["L10"], seed=2)
    assert (caught["caught"], caught["by"], caught["seed"], caught["why"]) == (True, ["L10"], 2, "")
    alarmed = chased(caught_by=["L10"], alarms={"L10": 1})
    assert (alarmed["caught"], alarmed["why"]) == (False, "4.1.2 broke L10, too")
    missed = chased(wrong={"S1": 1}, broken={"4.0.2: no Java": 2})
    why = "2 seeds of 4.0.2 broke S1; broken: 4.0.2: no Java"
    assert (missed["caught"], missed["why"]) == (False, why)


@pytest.mark.parametrize("name", ["night.toml", "hour.toml", None])
def test_at_least_half_of_a_night_is_seeds_of_full_length(name: str | None) -> None:
    """They are as long as their faults need: nobody gives them a time limit."""
    folder = ROOT / "docs" / "examples"
    night = plan.DEFAULT if name is None else plan.load(folder / name)
    full = sum(sim.weight for sim in night.sim if sim.time_limit is None)
    rest = sum(sim.weight for sim in night.sim if sim.time_limit is not None)
    assert full >= rest + sum(live.weight for live in night.live)


def test_times_and_sizes() -> None:
    """Units as people write them."""
    assert [entries.seconds(text) for text in ("90s", "1.5m", "8 h")] == [90.0, 90.0, 28_800.0]
    assert [plan.size(text) for text in ("500 MB", "1.5GB")] == [500_000_000, 1_500_000_000]


# --------------------------------------------------------------------------- the ledger


def test_a_ledger_says_the_same_when_it_is_read_again(tmp_path: Path) -> None:
    """The fold of its lines; a torn last line is left out and overwritten."""
    book = Ledger(tmp_path)
    book.add({"t": "begin", "plan": "p", "at": "now", "first_seed": 7})
    book.add(seed_line(7), seed_line(8, "invalid", invariants=["S1"], store="x", message="two"))
    book.add({"t": "spent", "entry": "sim:a", "s": 2.5})
    book.close()
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(path.read_bytes() + b'{"t":"seed","entry":"sim:a","se')
    again = Ledger(tmp_path)
    assert again.night == book.night
    again.add({"t": "begin", "plan": "p", "at": "later", "first_seed": 7})
    again.close()
    night = ledger.read(tmp_path)
    assert (night.histories, night.used_s, night.resumed) == (2, 2.5, 1)
    (failing,) = night.failing.values()
    assert (failing.first_seed, failing.runs, failing.message) == (8, ["x"], "two")


def test_a_ledger_with_a_bad_line_inside_is_refused(tmp_path: Path) -> None:
    """Nobody should go on from what cannot be read."""
    (tmp_path / "ledger.jsonl").write_bytes(b"{}\nnonsense\n{}\n")
    with pytest.raises(UsageError, match=r"ledger\.jsonl:2: not a line"):
        ledger.read(tmp_path)


def test_failures_alike_are_one_way_to_fail() -> None:
    """By entry, verdict and what was broken."""
    night = Night()
    for seed in range(3):
        night.take(seed_line(seed, "invalid", invariants=["S1"]))
    night.take(seed_line(9, "invalid", invariants=["S2"]))
    assert [(f.times, f.first_seed, f.last_seed) for f in night.failing.values()] == [
        (3, 0, 2),
        (1, 9, 9),
    ]


def test_a_run_fails_in_the_way_of_what_it_broke_first() -> None:
    """Also where it broke more besides; lines of older nights tell invariants only."""
    night = Night()
    night.take(seed_line(1, "invalid", invariants=["S1"], signature="S1: n# leads"))
    night.take(seed_line(2, "invalid", invariants=["S1", "S9"], signature="S1: n# leads"))
    night.take(seed_line(3, "invalid", invariants=["S1"], signature="S1: n# votes"))
    night.take(seed_line(4, "invalid", invariants=["S1"]))
    assert [(f.signature, f.times) for f in night.failing.values()] == [
        ("S1: n# leads", 2),
        ("S1: n# votes", 1),
        ("S1", 1),
    ]
    again = {"t": "again", "reproduced": 2, "times": 2}
    night.take({**seed_line(3, "invalid"), **again, "signature": "S1: n# votes"})
    assert [failing.again is None for failing in night.failing.values()] == [True, False, True]


def test_only_a_night_of_the_same_plan_that_is_not_over_goes_on(tmp_path: Path) -> None:
    """``summary.json`` ends a night."""
    folder = tmp_path / ledger.FOLDER / "20260101T000000Z-aa"
    folder.mkdir(parents=True)
    book = Ledger(folder)
    book.add({"t": "begin", "plan": "p", "at": "now", "first_seed": 1})
    book.close()
    assert ledger.unfinished(tmp_path, "p") == folder
    assert ledger.unfinished(tmp_path, "q") is None
    (folder / "summary.json").write_text("{}", encoding="utf-8")
    assert ledger.unfinished(tmp_path, "p") is None


# --------------------------------------------------------------------------- what makes it red


@pytest.mark.parametrize(
    ("lines", "code", "reason"),
    [
        ([seed_line(1), CANARY], EXIT_VALID, None),
        ([CANARY], EXIT_UNKNOWN, "no history was checked"),
        ([seed_line(1)], EXIT_UNKNOWN, "canary forgotten-vote was not tried"),
        (
            [seed_line(1), {**CANARY, "caught": False, "why": "nothing"}],
            EXIT_HARNESS,
            "canary forgotten-vote was not caught: nothing",
        ),
        ([seed_line(1, same_bytes=False), CANARY], EXIT_HARNESS, "not the same bytes twice"),
        ([seed_line(1, "unknown"), CANARY], EXIT_UNKNOWN, "sim:a: in doubt (1 run, seed 1)"),
        (
            [seed_line(1, "unknown", harness_error="boom"), CANARY],
            EXIT_HARNESS,
            "the harness broke: sim:a, seed 1: boom",
        ),
        ([seed_line(1), CANARY, {"t": "broke", "reason": "r"}], EXIT_HARNESS, "harness broke: r"),
        (
            [seed_line(1, "invalid", invariants=["S1"], same_bytes=False)],
            EXIT_INVALID,
            "sim:a: S1 broken (1 run, seed 1)",
        ),
        (
            [*map(seed_line, range(outcome.SEEDS_FOR_COVERAGE)), CANARY],
            EXIT_UNKNOWN,
            "coverage: never happened",
        ),
    ],
)
def test_the_exit_code_is_the_worst_reasons(
    lines: list[dict[str, Any]], code: int, reason: str | None
) -> None:
    """Invalid wins over a harness that is not to be trusted, and that over doubt."""
    night = Night()
    for line in lines:
        night.take(line)
    assert outcome.exit_code(PLAN, night) == code
    found = [red.reason for red in outcome.reds(PLAN, night)]
    assert found == [] if reason is None else reason in found[0]
    suites = fromstring(to_xml(outcome.suites(PLAN, night, Path("store"), KRUCIBLE)))
    bad = suites.findall(".//failure") + suites.findall(".//error")
    only_missing = code == EXIT_UNKNOWN and reason != "coverage: never happened"
    assert bool(bad) == (code != EXIT_VALID) or only_missing


def test_junit_can_say_anything() -> None:
    """Hostile text is text; what XML cannot hold is shown as such."""
    text = "<script>\x00\ud800]]>&\n\x1b[31mred"
    root = fromstring(to_xml([Suite(text, (Case(text, 1.5, failure=text, output=text),))]))
    (case,) = root.iter("testcase")
    assert case.findtext("failure") == "<script>\ufffd\ufffd]]>&\n\ufffd[31mred"
    assert root[0].get("failures") == "1"


# --------------------------------------------------------------------------- in words


SEEDED = plan.Plan(
    budget="1h", sim=(entries.Sim(name="a", mutant="no-flush"), entries.Sim(name="b", voters=3))
)
SPENT = {"t": "spent", "entry": "sim:a", "s": 3540.0}


@pytest.mark.parametrize(
    ("wanted", "lines", "headline"),
    [
        (PLAN, [seed_line(1), CANARY, SPENT], "1 history, all valid, in 59 min."),
        (
            PLAN,
            [*map(seed_line, range(3)), CANARY, SPENT],
            "3 histories, all valid, in 59 min.",
        ),
        (
            PLAN,
            [*map(seed_line, range(2)), {**seed_line(2), "verdict": "undecided"}, CANARY, SPENT],
            "3 histories, all valid but 1 in which too little happened, in 59 min.",
        ),
        (
            PLAN,
            [
                *(seed_line(seed) for seed in (1, 2)),
                *(bad(seed) for seed in (3, 4)),
                bad(5, signature="S1: another"),
                {**CANARY, "caught": False, "why": "nothing"},
                SPENT,
            ],
            (
                "3 of 5 histories are invalid, in 2 ways. The seeded bug forgotten-vote was not"
                " caught. It took 59 min."
            ),
        ),
        (
            PLAN,
            [
                seed_line(1),
                bad(2, findings=["a page, a story"]),
                bad(3, signature="S1: another"),
                CANARY,
                SPENT,
            ],
            "2 of 3 histories are invalid, in 2 ways, 1 of them known. It took 59 min.",
        ),
        (
            PLAN,
            [bad(1, findings=["a page, a story"]), CANARY, SPENT],
            "1 of 1 history is invalid, in 1 way, all known. It took 59 min.",
        ),
        (
            SEEDED,
            [bad(1), bad(2), SPENT],
            (
                "All failures are runs with a seeded bug. 2 of 2 histories are invalid. It took"
                " 59 min."
            ),
        ),
        (
            SEEDED,
            [bad(1), bad(2, entry="sim:b"), SPENT],
            (
                "1 of 2 histories is invalid, in 1 way. 1 more run with a seeded bug failed, as it"
                " should. It took 59 min."
            ),
        ),
        (
            PLAN,
            [seed_line(1), {"t": "broke", "reason": "r"}, {"t": "broke", "reason": "q"}, CANARY],
            "The harness broke: r; and in 1 other way. It checked 1 history in 0 s.",
        ),
        (
            PLAN,
            [seed_line(1, "unknown", message="m"), seed_line(2), CANARY],
            "1 of 2 histories is in doubt. It took 0 s.",
        ),
        (PLAN, [CANARY], "No history was checked. It took 0 s."),
        (
            PLAN,
            [seed_line(1, same_bytes=False)],
            (
                "1 seed did not give the same bytes twice. The seeded bug forgotten-vote was not"
                " tried. It checked 1 history in 0 s."
            ),
        ),
    ],
)
def test_a_night_is_told_in_sentences(
    wanted: plan.Plan, lines: list[dict[str, Any]], headline: str
) -> None:
    """The gravest comes first; what a seeded bug broke is no news."""
    assert told_of(wanted, *lines)["headline"] == headline


def test_what_no_finding_explains_comes_first() -> None:
    told = told_of(
        PLAN,
        bad(1, message="was seen before", findings=["a page, a story", "a page, another"]),
        bad(2, signature="S1: another", message="is news"),
    )
    assert [each["message"] for each in told["failing"]] == ["is news", "was seen before"]
    assert [each["findings"] for each in told["failing"]] == [
        [],
        ["a page, a story", "a page, another"],
    ]
    news, known = told["reasons"][:2]
    assert news == "sim:a: S1 broken (1 run, seed 2): is news"
    said = "1 run, seed 1; known: a page, a story; a page, another"
    assert known == f"sim:a: S1 broken ({said}): was seen before"


def test_a_failure_counts_once_however_many_entries_meet_it() -> None:
    """A way to fail is a signature: it is the same in a simulation and in a live run."""
    wanted = plan.Plan(budget="1h", sim=(entries.Sim(name="a"),), live=(entries.Live(name="x"),))
    told = told_of(wanted, bad(1), {**bad(1), "t": "live", "entry": "live:x"})
    assert len(told["failing"]) == 2
    assert told["headline"].startswith("2 of 2 histories are invalid, in 1 way.")


def test_a_summary_says_what_was_left_out() -> None:
    """Entries without a run, canaries that were not tried; and what coverage lacks seeds for."""
    skipped = {"t": "skipped", "entry": "live:x", "reason": "the budget was used up"}
    told = told_of(PLAN, seed_line(1), skipped)
    assert told["skipped"] == {
        "live:x": "the budget was used up",
        "canary:forgotten-vote": "the night did not try it",
    }
    assert (told["coverage"]["seeds"], told["coverage"]["seeds_needed"]) == (1, 300)
    assert told["coverage"]["not_reached"]
    assert told["never"] is None


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0.4, "0 s"), (89.0, "89 s"), (3540, "59 min"), (28_680, "7 h 58 min"), (28_800, "8 h")],
)
def test_lengths_of_time_are_told_as_people_do(seconds: float, told: str) -> None:
    assert length(seconds) == told


# --------------------------------------------------------------------------- the store's limit


def stored(store: Store, seed: int, results: dict[str, Any] | None) -> RunDir:
    """A run with results, of about 1 kB."""
    run = store.new_run(RunSpec(seed=seed))
    run.history.write_bytes(b"x" * 1_000)
    if results is not None:
        run.write_results(results)
    return run


def test_valid_runs_are_dropped_oldest_first_and_no_other(tmp_path: Path) -> None:
    """A run that failed, is in doubt or was not judged stays, whatever the limit."""
    store = Store(tmp_path)
    valid = {"system": "valid", "coverage": "valid", "harness": "ok"}
    first, second, kept = (stored(store, seed, valid) for seed in (1, 2, 3))
    others = [
        stored(store, 4, {**valid, "system": "invalid"}),
        stored(store, 5, {**valid, "coverage": "unknown"}),
        stored(store, 6, {**valid, "harness": "broken"}),
        stored(store, 7, None),
    ]
    total = sum(size_of(run.path) for run in store.runs())
    assert rotate(store, total).dropped == ()
    done = rotate(store, total - 1, {str(kept.path)})
    assert done.dropped == (first.path,)
    done = rotate(store, 0, {str(kept.path)})
    assert done.dropped == (second.path,)
    left = [run.path for run in store.runs()]
    assert left == [kept.path, *(run.path for run in others)]
    assert done.left_bytes == sum(size_of(path) for path in left)
    assert not list(tmp_path.glob("*/.dropped*"))


# --------------------------------------------------------------------------- live canaries


@pytest.mark.parametrize(
    ("error", "why"),
    [
        ("the nodes did not start", "could not be judged; the nodes did not start"),
        (None, "broke nothing"),
    ],
)
def test_runs_that_never_started_have_not_missed_a_bug(
    tmp_path: Path, error: str | None, why: str
) -> None:
    """The night is red for either, and says which."""
    told = repr({"anomalies": [], "harness_error": error})
    command = f"import json, sys; print(json.dumps({told})); sys.exit({EXIT_HARNESS})"
    canary = Canary(mutant="forgotten-vote", live=True, budget="1s")
    wanted = msgspec.structs.replace(PLAN, budget="1s", sim=(), canary=(canary,))
    book = Ledger(tmp_path)
    book.add({"t": "begin", "first_seed": 1}, {"t": "spent", "entry": "sim:a", "s": 1.0})
    program = Program((sys.executable, "-c", command))
    Worker(wanted, book, Store(tmp_path), program, lambda _: None).work()
    book.close()
    line = book.night.canaries[canary.name]
    assert not line["caught"]
    assert line["why"].split(" runs ")[1] == why


# --------------------------------------------------------------------------- whole nights


@pytest.fixture
def slices_of_cpu_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice of a night has so much CPU time, and so as many seeds on a busy host as on another.

    The night itself goes by real time: it ends after that slice.
    """
    monkeypatch.setattr(sims, "time", SimpleNamespace(monotonic=time.process_time))


def night(path: Path, store: Path, capfd: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    """Run the command; its exit code and what it printed."""
    with pytest.raises(SystemExit) as left:
        main(["nightly", "--plan", str(path), "--store", str(store), "--seed", "1", "--json"])
    told: dict[str, Any] = msgspec.json.decode(capfd.readouterr().out.splitlines()[-1])
    assert isinstance(left.value.code, int)
    return left.value.code, told


@pytest.mark.usefixtures("slices_of_cpu_time")
def test_a_night_with_a_bug_is_red_and_says_how_to_see_it_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Failures are counted, stored, run again and shrunk, and the night goes on."""
    more = 'mutant = "ack-before-commit"'
    text = QUICK.format(budget="4s", more=more).replace("voters = 1", "voters = 3")
    code, told = night(write(tmp_path, text), tmp_path / "store", capfd)
    assert (code, told["exit_code"]) == (EXIT_INVALID, EXIT_INVALID), told["reasons"]
    failing = told["failing"][0]
    assert failing["reproduced"] == [2, 2]
    assert (Path(failing["shrunk"]) / "schedule.jsonl").is_file()
    assert len(failing["runs"]) <= failing["times"]
    suites = fromstring((Path(told["folder"]) / "junit.xml").read_bytes())
    texts = [each.text or "" for each in suites.iter("failure")]
    again = shlex.join(RunDir(Path(failing["runs"][0])).words)
    assert any(f"krucible repro {again}\n" in text for text in texts)
    assert failing["commands"][0].endswith(f"krucible repro {again}")


@pytest.mark.parametrize(
    ("used_s", "again", "told"),
    [
        (200.0, 2, "2 failures are run again and shrunk beyond it, for at most 5 min"),
        (302.0, 0, "there was no time to run again and shrink 2 failures"),
    ],
)
def test_failures_are_looked_into_beyond_the_budget_for_so_long_at_most(
    tmp_path: Path, used_s: float, again: int, told: str
) -> None:
    """All are run again before the first is shrunk."""
    wanted = msgspec.structs.replace(PLAN, budget="1s", sim=(), canary=())
    book, lines = Ledger(tmp_path), list[Any]()
    ways = [bad(seed, signature=f"S1: {seed}", store=f"run-{seed}") for seed in (1, 2)]
    book.add({"t": "begin", "first_seed": 1}, *ways, {"t": "spent", "entry": "sim:a", "s": used_s})
    program = Program((sys.executable, "-c", "print('{}')"))
    Worker(wanted, book, Store(tmp_path), program, lines.append).work()
    book.close()
    kinds = [line["t"] for line in lines if line["t"] in ("again", "shrunk")]
    assert kinds == ["again"] * again + ["shrunk"] * again
    assert any(told in line.get("text", "") for line in lines)


def test_a_night_says_what_it_had_no_time_for(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A live run that is longer than what is left does not begin: the budget is kept."""
    text = QUICK.format(budget="3s", more="") + '[[live]]\nname = "long"\ntime-limit = 60\n'
    code, told = night(write(tmp_path, text), tmp_path / "store", capfd)
    assert code == EXIT_VALID, told["reasons"]
    assert told["skipped"] == {"live:long": "a run takes 60 s and more, 0 s were left"}
    assert told["budget_s"] == 3.0
    assert told["used_s"] < 60.0, "the run of 60 s did not begin"
    assert "live:long" not in told["entries"]
    again = ledger.read(Path(told["folder"]))
    assert again.skipped == told["skipped"]


@pytest.mark.usefixtures("slices_of_cpu_time")
def test_of_one_failure_only_so_many_runs_are_stored(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also when each seed of a slice fails and no process knows of the others; all are counted."""
    more = 'mutant = "ack-before-commit"'
    text = QUICK.format(budget="4s", more=more).replace("voters = 1", "voters = 3")
    text = text.replace('shrink = "5s"', 'shrink = "0s"\nkept = 2')
    code, told = night(write(tmp_path, text), tmp_path / "store", capfd)
    assert code == EXIT_INVALID, told["reasons"]
    (failing,) = told["failing"]
    assert failing["times"] > len(failing["runs"]) > 0
    assert len(failing["runs"]) <= 2


def test_a_canary_without_time_for_a_seed_is_in_the_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(*_: object) -> Iterator[object]:
        yield from ()

    monkeypatch.setattr("harness.nightly.work.work_off", nothing)
    canary = Canary(mutant="forgotten-vote", budget="1s")
    wanted = msgspec.structs.replace(PLAN, budget="1s", sim=(), canary=(canary,))
    book = Ledger(tmp_path)
    book.add({"t": "begin", "first_seed": 1}, {"t": "spent", "entry": "sim:a", "s": 1.0})
    Worker(wanted, book, Store(tmp_path), Program(()), lambda _: None).work()
    book.close()
    line = book.night.canaries[canary.name]
    assert (line["caught"], line["seed"]) == (False, None)
    assert line["why"] == "no seed of its scenario was simulated"


def test_a_canary_that_was_not_caught_says_how_to_hunt_it() -> None:
    """In the JUnit file, and on the screen."""
    told = Night()
    told.take({"t": "begin", "first_seed": 5})
    for name in ("forgotten-vote", "no-flush (live)", "stuck-observer", "gone"):
        told.take({**CANARY, "name": name, "caught": False, "why": "nothing"})
    canaries = (
        Canary(mutant="forgotten-vote"),
        Canary(mutant="no-flush", live=True),
        Canary(bug="stuck-observer"),
    )
    plan = msgspec.structs.replace(PLAN, canary=canaries)
    suites = fromstring(to_xml(outcome.suites(plan, told, Path("/s"), KRUCIBLE)))
    found = [each.text for each in suites.iter("failure")]
    assert found[:4] == [
        "nothing\nkrucible zoo --only forgotten-vote --arm directed",
        (
            "nothing\nkrucible run --mutant no-flush --seed 5 --store /s --workload register "
            "--time-limit 30.0 --nemesis all"
        ),
        "nothing\nkrucible zoo --only stuck-observer --arm releases",
        "nothing",
    ]


@pytest.mark.usefixtures("slices_of_cpu_time")
def test_a_seed_that_ends_its_process_is_one_broken_seed_of_the_night(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named and stored, and not begun again; the night goes on, and ends with 255."""

    def deadly(plan: Plan) -> SimRun:
        if plan.spec.seed == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return simulate(plan)

    monkeypatch.setattr(sims, "simulate", deadly)
    store = tmp_path / "store"
    code, told = night(write(tmp_path, QUICK.format(budget="4s", more="")), store, capfd)
    assert code == EXIT_HARNESS, told["reasons"]
    lines = (Path(told["folder"]) / "ledger.jsonl").read_bytes().splitlines()
    judged = [line for line in map(msgspec.json.decode, lines) if line["t"] == "seed"]
    seeds = [line["seed"] for line in judged]
    assert len(seeds) == len(set(seeds)) == told["histories"]
    assert {1, 2, 3, 4, 6, 8} <= set(seeds), "one of two processes goes on at once"
    (broken,) = [line for line in judged if line["seed"] == 3]
    assert broken["harness_error"] == "its process was killed by signal 9"
    assert any("seed 3: its process was killed by signal 9" in why for why in told["reasons"])
    assert load_spec(RunDir(Path(broken["store"])).spec).seed == 3


def test_a_night_that_is_killed_goes_on_and_loses_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """SIGKILL in the midst: what was judged stays judged, and no seed is judged twice."""
    path, store = write(tmp_path, QUICK.format(budget="4s", more="")), tmp_path / "store"
    command = [sys.executable, "-c", "from krucible.app import main; main()", "nightly", "--plan"]
    process = subprocess.Popen(
        [*command, str(path), "--store", str(store), "--seed", "1", "--json"],
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline_s, found = time.monotonic() + 60, list[Path]()
    while time.monotonic() < deadline_s:
        found = list(store.glob("nights/*/ledger.jsonl"))
        if found and b'"seed"' in found[0].read_bytes():
            break
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = ledger.read(found[0].parent).seeds["sim:quick"]
    code, told = night(path, store, capfd)
    assert (code, told["resumed"]) == (EXIT_VALID, 1), told["reasons"]
    assert told["folder"] == str(found[0].parent)
    lines = [msgspec.json.decode(line) for line in found[0].read_bytes().splitlines()]
    judged = [line["seed"] for line in lines if line["t"] == "seed"]
    assert before
    assert before <= set(judged)
    assert len(judged) == len(set(judged)) == told["histories"]
