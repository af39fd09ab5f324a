"""Small changes to the checkers of cycles, logs and pruning, each of which the tests must notice.

    python tests/support/histories/mutations.py [--whole] [--only TEXT]

Each is made in a copy of the package; then the test that is named beside it is run, with
``--whole`` all tests of these checkers. Prints a line for each, and exits 1 when one was missed.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.support.places import ROOT

TESTS = (
    "checkers/transactions/test_cycles.py",
    "checkers/partitions/test_log.py",
    "checkers/committed/test_pruning.py",
    "workloads/test_list_append.py",
)


CPU_S = 20  # of a test's process; one that goes on for ever has noticed, too
PASSED, FAILED = 0, 1  # exit codes of pytest; with any other the tests were not run


@dataclass(frozen=True, slots=True)
class Mutation:
    """``old``, which stands once in ``file``, becomes ``new``; ``test`` is in ``tests/``."""

    file: str
    old: str
    new: str
    test: str


def _of(file: str, test_file: str, *rows: tuple[str, str, str]) -> tuple[Mutation, ...]:
    return tuple(Mutation(file, old, new, f"{test_file}::{test}") for old, new, test in rows)


NAMED = "test_each_anomaly_is_called_by_its_name"
BRUTE = "test_every_order_tried_says_the_same"
ALL_CYCLES = "test_models_are_judged_as_by_all_cycles"
BUDGET = "test_a_budget_that_runs_out_is_said_wherever_it_does"
LIMIT = "test_where_a_limit_is_reached_the_verdict_is_unknown_unless_something_was_found"
MUTATIONS = (
    *_of(
        "limits/budget.py",
        "checkers/transactions/test_cycles.py",
        ("        budget.look(len(some))\n", "        pass\n", BUDGET),
        ("min(self.used + items, self.configurations_max)", "0", LIMIT),
    ),
    *_of(
        "transactions/cycles.py",
        "checkers/transactions/test_cycles.py",
        ("judged.gave_up = error.reason", "pass", BUDGET),
        ("graph, kinds, precedes, budget, cycles)", "graph, kinds, precedes, budget)", NAMED),
    ),
    *_of(
        "transactions/explain.py",
        "checkers/transactions/test_cycles.py",
        ("if more else", "if False else", "test_of_a_long_cycle_the_first_steps_are_told"),
    ),
    *_of(
        "partitions/log.py",
        "checkers/partitions/test_log.py",
        ("reason = gave_up or (", "reason = (", "test_a_limit_that_is_reached_is_said"),
    ),
    *_of(
        "transactions/txns.py",
        "checkers/transactions/test_cycles.py",
        (
            'ends[number] = at if op.type == "ok" else NEVER',
            "ends[number] = at",
            BRUTE,
        ),
        (
            'key=lambda at: ops[at].type != "invoke"',
            'key=lambda at: ops[at].type == "invoke"',
            "test_equal_times_are_concurrent_where_the_file_says_so",
        ),
        (
            'bare = all(op.type != "invoke" for op in clients)',
            "bare = False",
            "test_completions_without_any_invocation_are_transactions",
        ),
    ),
    *_of(
        "transactions/orders.py",
        "checkers/transactions/test_cycles.py",
        ("elif outcome == FAIL:", "elif False:", NAMED),
        ("or len({mop[1] for mop in mops}) == len(mops):", "or True:", NAMED),
        ("of_key.again.add(element)", "pass", "test_elements_appended_twice_leave_it_open"),
        ("key=lambda read: len(read[1])", "key=lambda read: -len(read[1])", BRUTE),
        ("if len(set(order)) < len(order):", "if False:", NAMED),
        ("if order[: len(seen)] != seen:", "if False:", NAMED),
        ("for e in mine[:-1]}", "for e in mine}", "test_what_one_order_explains_is_valid"),
        ("if seen != [*known[key], *mine]:", "if seen != known[key]:", BRUTE),
        ("elif mine and mine != seen[-len(mine) :]:", "elif False:", NAMED),
        ("if key in shown and mop.element in shown[key]:", "if False:", NAMED),
        ("if len(together) > 1:", "if len(together) > 2:", NAMED),
        (
            "if places.get(before, len(places)) > places.get(after, len(places)):",
            "if False:",
            NAMED,
        ),
        ("if txn in appenders:", "if True:", "test_what_one_order_explains_is_valid"),
        ("orders.committed[writer] = True", "pass", BRUTE),
        ("external=key not in changed)", "external=True)", BRUTE),
    ),
    *_of(
        "transactions/graph.py",
        "checkers/transactions/test_cycles.py",
        ("edges.extend(pairwise(somebody), WW)", "pass", NAMED),
        ("before[n - 1] != NOBODY), WR", "before[n - 1] != NOBODY), RW", NAMED),
        ("((txn, after[n]) for txn, n in reads if n < over)", "()", NAMED),
        ("if n >= over] if of_key.unseen else []", "if n > over]", BRUTE),
        (
            "for one, other in pairwise((*readers, readers[0])):",
            "for one, other in pairwise(readers):",
            "test_what_nobody_read_closes_cycles_too",
        ),
        ("    if last in among:\n", "    if False:\n", "test_what_nobody_read_closes_cycles_too"),
        (
            "                edges.add(last[process], txn, PROCESS)\n",
            "                pass\n",
            "test_what_one_process_did_closes_cycles_of_its_own",
        ),
        ("            fresh = True\n            continue", "            continue", BRUTE),
        ("if not waiting[target]:", "if True:", BRUTE),
        (
            "if stacked[target] and number[target] < low[node]:",
            "if number[target] < low[node]:",
            "test_components_are_those_of_networkx",
        ),
        (
            "if path and low[node] < low[path[-1]]:",
            "if False:",
            "test_components_are_those_of_networkx",
        ),
        (
            "if not kinds[at - 1] & mask or not within[target]:",
            "if not within[target]:",
            "test_components_are_those_of_networkx",
        ),
    ),
    *_of(
        "transactions/search.py",
        "checkers/transactions/test_cycles.py",
        ('base = "G1c" if WR in kinds else "G0"', 'base = "G0"', NAMED),
        (
            "adjacent = any(one == other == RW for one, other in pairwise([kinds[-1], *kinds]))",
            "adjacent = any(one == other == RW for one, other in pairwise(kinds))",
            "test_cycles_are_named_by_their_edges",
        ),
        ("for mask, through in ((WW, WW), (WW | WR, WR)):", "for mask, through in ():", ALL_CYCLES),
        (
            "self._each(whole, RW, DEPENDENCIES | extra, TRIES_MAX)",
            "pass",
            NAMED,
        ),
        (
            "for cycle in islice(self._nonadjacent(plain, extra), SHOWN_MAX):",
            "for cycle in ():",
            ALL_CYCLES,
        ),
        (
            "edges.add(2 * place, 2 * other + 1, RW)",
            "edges.add(2 * place, 2 * other, RW)",
            ALL_CYCLES,
        ),
        ("behind = graph.targets[first : min(stop, first + TRIES_MAX)]",
         "behind = graph.targets[first : first + TRIES_MAX]",
         "test_what_stands_for_others_stands_for_no_more"),
        ("if far < cost.get(other, far + 1):", "if far > cost.get(other, -1):", ALL_CYCLES),
    ),
    *_of(
        "transactions/consistency.py",
        "checkers/transactions/test_cycles.py",
        ('"G-single", "G-nonadjacent"}', '"G-single"}',
         "test_write_skew_is_a_snapshot_and_long_fork_is_none"),
        ('    "G1b",\n', "", "test_each_model_forbids_what_the_weaker_ones_do_and_more"),
        ('| {"internal", "lost-update"}', "",
         "test_each_model_forbids_what_the_weaker_ones_do_and_more"),
    ),
    *_of(
        "partitions/log.py",
        "checkers/partitions/test_log.py",
        ("if len(values) > 1:\n                told", "if False:\n                told", NAMED),
        ("if len(offsets) > 1:", "if len(offsets) > 2:", NAMED),
        ("if writer is None:\n                yield", "if False:\n                yield", NAMED),
        ('elif writer.outcome == "fail":', "elif False:", NAMED),
        ("elif writer is op:", "elif False:", NAMED),
        ("if max(offsets) > bound or value in seen or writer is None:",
         "if value in seen or writer is None:",
         "test_what_lies_behind_all_that_was_polled_is_unseen_not_lost"),
        ("            if partitions.committed(writer):\n", "            if True:\n",
         "test_what_only_a_poll_that_failed_returned_is_not_lost"),
        ("if second <= first:", "if second < first:", NAMED),
        ("elif second > first + 1 and", "elif second > first + 2 and", NAMED),
        ("for key in set(known) - set(op.keys):", "for key in set(known):",
         "test_a_partition_given_up_may_be_begun_anew"),
        ("([poll] for poll in op.polls) if subscribed else (op.polls,)", "(op.polls,)",
         "test_who_subscribes_may_lose_a_partition_between_polls_but_not_within_one"),
        ("frozenset({\"int-send-skip\"})", "frozenset()",
         "test_writes_of_others_may_come_in_between"),
        ("edges.add(numbers[writer], numbers[op], WR)", "pass",
         "test_information_in_a_circle_is_found"),
        ('if writer.outcome == "ok" and value not in', "if value not in",
         "test_a_send_of_unknown_outcome_may_be_missing_but_not_when_a_part_of_it_was_seen"),
    ),
    *_of(
        "partitions/orders.py",
        "checkers/partitions/test_log.py",
        ("enumerate(sorted(self.at))", "zip(self.at, self.at)",
         "test_holes_in_the_offsets_are_no_skips"),
        ("        if partitions.committed(op):\n", "        if True:\n",
         "test_a_send_of_unknown_outcome_may_be_missing_but_not_when_a_part_of_it_was_seen"),
    ),
    *_of(
        "committed/pruning.py",
        "checkers/committed/test_pruning.py",
        ("if 2 * holders[name] > len(voters) and", "if", "test_what_a_minority_holds_stays_open"),
        (" and at_base[name[0]] == 1:", ":",
         "test_where_logs_contradict_each_other_nothing_is_agreed"),
        ("elif known.whole and effect not in known.held:", "elif effect not in known.held:",
         "test_logs_that_are_not_whole_say_nothing_of_what_they_lack"),
        ("if effect is None or asked[effect] > 1 or", "if effect is None or",
         "test_an_effect_that_was_asked_for_twice_decides_nothing"),
        ("        agreed.pop(effect, None)\n", "        pass\n",
         "test_a_write_that_is_logged_twice_decides_nothing"),
        ("if acknowledged[middle][0] > offset:", "if acknowledged[middle][0] < offset:",
         "test_what_is_committed_before_an_acknowledged_write_happened_before_that_answer"),
        ("if run.history.stopped is not None or", "if",
         "test_a_stopped_simulation_has_no_final_logs"),
        ("moved[end].append(ops[end].with_(type=\"fail\", error=NEVER))", "pass",
         "test_what_no_log_holds_never_happened"),
    ),
    *_of(
        "list_append.py",
        "workloads/test_list_append.py",
        ('    "G1a": SURVIVES,\n', "", "test_what_no_list_can_do_is_found"),
    ),
    Mutation(
        "list_append.py",
        "history = pruned(run)",
        "history = run.history",
        "checkers/committed/test_pruning.py::test_the_checker_of_lists_goes_by_the_log",
    ),
)  # fmt: skip


def main() -> int:
    """Try all, one after the other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--whole", action="store_true", help="run all tests for each")
    parser.add_argument("--only", default="", help="those whose file or change holds this text")
    parser.add_argument("--every", type=int, default=1, help="only each N-th")
    options = parser.parse_args()
    chosen = [m for m in MUTATIONS if options.only in f"{m.file}: {m.old}"][:: options.every]
    sound = sorted({ROOT / "tests" / mutation.test for mutation in chosen})
    if _run(ROOT, list(map(str, sound))) != PASSED:
        raise SystemExit("the tests fail before anything is changed: mend that first")
    missed = 0
    for mutation in chosen:
        noticed = _noticed(mutation, whole=options.whole)
        missed += not noticed
        _say(f"{'noticed' if noticed else 'MISSED '}  {mutation.file}: {mutation.old.strip()!r}")
    _say(f"{len(chosen)} changes, {missed} missed")
    return 1 if missed else 0


def _noticed(mutation: Mutation, *, whole: bool) -> bool:
    """Make the change in a copy, and see whether the tests fail there."""
    with tempfile.TemporaryDirectory(prefix="krucible-mutation-") as name:
        package = Path(name) / "checkers"
        shutil.copytree(ROOT / "checkers", package, ignore=shutil.ignore_patterns("__pycache__"))
        path = package / mutation.file
        text = path.read_text(encoding="utf-8")
        if text.count(mutation.old) != 1:
            raise SystemExit(
                f"{mutation.file} has {mutation.old!r} {text.count(mutation.old)} times, want once:"
                " say anew what to change"
            )
        path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
        tests = TESTS if whole else (mutation.test,)
        code = _run(Path(name), [str(ROOT / "tests" / test) for test in tests])
    if code not in (PASSED, FAILED):
        raise SystemExit(f"{mutation.file}: {mutation.old!r}: {tests} ended with {code}")
    return code == FAILED


def _run(first: Path, tests: list[str]) -> int:
    """Run tests in a child that has all but the checkers imported already; its exit code."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return FAILED if code == -signal.SIGXCPU else code
    code = 3
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 1))
        sys.dont_write_bytecode = True
        sys.path.insert(0, str(first))
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        import pytest  # noqa: PLC0415

        options = ["-x", "-q", "-p", "no:cacheprovider"]
        code = int(pytest.main([*options, "--rootdir", str(ROOT), *tests]))
    finally:
        os._exit(code)


def _preload() -> None:
    """Import what every child needs, but nothing of the checkers."""
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # none is needed, and they cost time
    import networkx as nx  # noqa: PLC0415
    import pytest  # noqa: F401, PLC0415

    import harness.contracts.checker  # noqa: PLC0415
    import harness.history.formats  # noqa: F401, PLC0415

    nx.DiGraph()
    for name in [name for name in sys.modules if name.partition(".")[0] == "checkers"]:
        raise SystemExit(f"{name} is imported before it can be changed")


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - what people read


if __name__ == "__main__":
    _preload()
    sys.exit(main())
