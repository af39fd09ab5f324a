"""Small changes to the linearizability checker, each of which breaks one of its rules.

Each is applied to a copy of the checker, and the tests run on it: bench/check_mutations.py tries
all of them, the test suite a few.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support.places import ROOT

TESTS = (
    "tests/checkers/linearizability/test_methods.py",
    "tests/checkers/linearizability/test_linearizable.py",
    "tests/checkers/models/test_models.py",
)
TIME_LIMIT_S = 120


@dataclass(frozen=True, slots=True)
class Mutation:
    """In a module of ``checkers``, text that stands there once, and what replaces it."""

    module: str
    old: str
    new: str


def of(module: str, *pairs: tuple[str, str]) -> list[Mutation]:
    return [Mutation(module, old, new) for old, new in pairs]


MUTATIONS = [
    *of(
        "linearizability/zones",
        ("if f < s]\n", "if f <= s]\n    forward = forward[1:]\n"),
        ("if first[other] < last[one]:", "if first[other] < last[one] - 5:"),
        ("before >= 0 and f < last[forward[before]]", "before > 0 and f < last[forward[before]]"),
        ("if len(block) < len(rows) or start in block:", "if len(block) < len(rows):"),
        ("if len(block) < len(rows) or start in block:", "if start in block:"),
        ('if f == "read" and e != inf:', 'if f == "read":'),
        ("if e < wrote[at]:", "if e < wrote[at] - 1:"),
        ("if b > last[at]:", "if b > last[at] and at:"),
    ),
    *of(
        "linearizability/chains",
        ("if before.left_by is not None:", "if before.left_by == -1:"),
        ("if before is None:\n", "if before is None and row > 99:\n"),
        ("if columns.end[value.row] < begun:", "if columns.end[value.row] < begun - 9:"),
        ("if value.first < begun:", "if value.first < -1:"),
        ("begun = max(begun, value.last)", "begun = max(begun, -inf)"),
        (
            "            taken.add(maker.row)\n            needed.append",
            "            needed.append",
        ),
        (
            'if columns.f[maker.row] == "cas":\n                wanted.append',
            "if False:\n                wanted.append",
        ),
        ("if self._held[self._columns.value[row]].chain is None:", "if False:"),
        ("if pair is not None:", "if pair is not None and pair[0] > 9:"),
        (
            "if value.made_by < columns.begin[row] and columns.end[row] < value.lasts_to:",
            "if False:",
        ),
        ("columns.begin[row] <= since or", "columns.begin[row] <= since + 2 or"),
        ("columns.end[row] >= until", "columns.end[row] >= until - 4"),
    ),
    *of(
        "linearizability/sweep",
        (
            "if value in block:\n                doubt.add(key)",
            "if value in block:\n                pass",
        ),
        ("if at is None or e < wrote[at]:", "if at is None:"),
        ("if lasts and first[at] < lasts[-1]:", "if len(lasts) > 9:"),
        ("if before >= 0 and f < lasts[before]:", "if before >= 9:"),
        ('elif f != "read":\n            doubt.add(key)', 'elif f != "read":\n            pass'),
    ),
    *of(
        "linearizability/registers",
        (
            'while order and f[order[-1]] == "write":',
            'while order and f[order[-1]] in ("write", "cas"):',
        ),
        ("value != state\n", "value != state or True\n"),
        ("or bit == target\n", "\n"),
        ("or (cas and blind & ~(done | optional | bit))", "or False"),
        (
            "if not optional & bit:\n                            break",
            "if True:\n                            break",
        ),
        ("options = (optional | blind) & ~now", "options = optional & ~now"),
        ("options = (optional | blind) & ~now", "options = (optional | blind)"),
        ("options |= same_bit", "pass"),
        ("options &= ~now & ~unknown", "options &= ~now"),
        ("if unseen and value not in cas:", "if unseen:"),
        ("if unseen and value not in cas:", "if value not in cas:"),
        ("if not unneeded:\n", "if unneeded is None:\n"),
        ("done |= reads.get(state, 0)\n", "pass\n"),
        ("done |= any_not & ~nots.get(state, 0)", "done |= any_not"),
        ("sees |= any_not & ~nots.get(value, 0)", "sees |= any_not"),
        ("if bit == target or sees & target:", "if bit == target:"),
        (
            "if optional & bit:\n                    after.add",
            "if False:\n                    after.add",
        ),
        ("if any(not rival & ~used for rival in rivals):", "if rivals:"),
        ("self.cut = True", "pass"),
        ("free = walk.open(row for", "free = 0 * walk.open(row for"),
        ("values = {start, *columns.value}", "values = {start}"),
        ("elif is_not and state != seen:", "elif is_not:"),
        ("while row < n and begin[row] <= now:", "while row < n and begin[row] < now:"),
        ("found.row = reached", "pass"),
        ("end[found.row] > end[reached]", "True"),
        ("now < begin[row + 1]):", "now <= begin[row + 1]):"),
        ("if target == row and not bits and", "if target == row and"),
        ("[config for config in layer if config[0] != seen]", "layer"),
        ("if config[0] == seen:\n", "if True:\n"),
        ('[config if f == "read" else (self._columns.value[row], 0, 0)]', "[config]"),
    ),
    *of(
        "linearizability/texts",
        ("if begin[row] <= last:", "if begin[row] < last:"),
        ("rows[at - 1 :], state)", "rows[at:], state)"),
        ("state = state[: len(state) - len(value[before])]", "pass"),
        ("state = replaced", "pass"),
        ("        if wrong:\n            return False\n", ""),
        ("seen[row] != state and last != inf", "seen[row] != state"),
        ("return not wrong", "return True"),
        ("elif end[row] != inf:", "elif end[row] != -inf:"),
        ("if low <= n and longest.startswith(text):", "if longest.startswith(text):"),
        ("if low <= n and longest.startswith(text):", "if low <= n:"),
        ("first = not begun and text.startswith(start)", "first = not begun"),
        ("begun = True", "pass"),
        (
            "if n not in placed:\n            return None",
            "if n not in placed:\n            continue",
        ),
        ("if at and self._f[row]", "if at > 99 and self._f[row]"),
        ("row = rows.pop(part, None)", "row = rows.get(part)"),
        ("or 0 in lengths", ""),
        ("return [*self.rows.values(), *(", "return [*("),
        ("row for rows in self._again.values() for row in rows)]", ")]"),
        ('[row for row in left if f[row] == "append"]', "list[int]()"),
        ('for row in left if f[row] == "put"]', "for row in left if False]"),
        ("while since != -inf and at", "while at"),
        ("for row in order + unseen[at:]:", "for row in order:"),
        ("if end[row] < latest:", "if end[row] < latest - 3:"),
    ),
    *of(
        "linearizability/forced",
        ("if any(len(part) > short and part[:short] in makers for part in makers):", "if False:"),
        ("return None if twice and not zones.linearizable else zones", "return zones"),
        ("if e < last or returned < begin[row]:", "if e < last:"),
        ("if e < last or returned < begin[row]:", "if returned < begin[row]:"),
        (
            "if returned < last:\n                return None",
            "if False:\n                return None",
        ),
        ("if overlap(first, last) is not None:", "if False:"),
        ("return not any(a < begin[row] and end[row] < z", "return not any(False"),
        ("if begin[r] <= by), rows[0])", "if True), rows[0])"),
        ("place is None or block.text[:n] != seen", "place is None"),
        ("if seen[:at] != block.text:", "if False:"),
        ("if row is None or row in self._placed or", "if row is None or"),
        ("if seen in placed:\n", "if seen == -1:\n"),
        ("if columns.end[row] < last:", "if columns.end[row] < -1:"),
        ("len(seen) > length or values[: len(seen)] != seen", "len(seen) > length"),
        ("(gaps or any(n > len(placed) for n, _, _ in reads))", "False"),
    ),
    *of(
        "linearizability/layers",
        ("if optional_other & ~optional:", "if False:"),
        ("if differ & self._seeing & done_other:", "if False:"),
        ("return not differ & self._unknown & done", "return True"),
        ("if differ & ~(optional | self._seeing | self._unknown):", "if False:"),
    ),
    *of(
        "linearizability/search",
        (
            "        if done & bit:\n                after.add",
            "        if False:\n                after.add",
        ),
        ("events[-1][2].action.total", "True"),
        ("outcome.at = furthest", "pass"),
        ("self._blind) if is_blind else optional)", "0) if is_blind else optional)"),
        ("if unneeded and is_blind:", "if unneeded:"),
        ("self._seeing |= bit\n", "pass\n"),
        ("self._unknown |= bit\n", "pass\n"),
    ),
    *of(
        "linearizability/calls",
        ('return op.type != "invoke"', 'return op.type == "invoke"'),
        ("if not known and action.observes:", "if not known and False:"),
        ('end is not None and end.type != "info"', "end is not None"),
    ),
    *of(
        "limits/budget",
        (
            "self.memory() + soon_bytes > self.memory_bytes * _SHARE",
            "self.memory() > self.memory_bytes",
        ),
        ("if self.clock() > self.deadline_s:", "if False:"),
        ("if held > self.configurations_max:", "if False:"),
    ),
    *of(
        "linearizability/methods",
        ("late = latest >= 0 and", "late = latest > 9 and"),
        ("if isinstance(to, Illegal) or late:", "if late:"),
    ),
    *of(
        "models/producer_ids",
        ("return first + count if first >= state else ILLEGAL", "return first + count"),
    ),
    *of(
        "models/multi_registers",
        ("elif now.get(key) != value:", "elif False:"),
    ),
    *of(
        "models/isr",
        ("if action.seen == state[0] else ILLEGAL", "if True else ILLEGAL"),
        ("return ILLEGAL if action.seen == state[0] else state", "return state"),
    ),
    *of(
        "models/registers",
        ("return ILLEGAL if action.seen == state else state", "return state"),
        ("return action.value if action.seen == state else ILLEGAL", "return action.value"),
    ),
    *of("models/lists", ("action.seen != len(state):", "False:")),
    *of("models/mutex", ('if held is (action.f == "acquire"):', "if False:")),
    *of("models/sets", ("return state - {action.value}", "return state")),
]


def unnoticed(mutation: Mutation, copy: Path, tests: tuple[str, ...] = TESTS) -> bool:
    """Whether the tests pass on a copy with this change.

    Raises:
        ValueError: The text is not there, or not once.
    """
    path = copy / "checkers" / f"{mutation.module}.py"
    text = path.read_text(encoding="utf-8")
    if mutation.old not in text:
        raise ValueError(f"{mutation.module} has no {mutation.old!r}: keep the list up to date")
    path.write_text(text.replace(mutation.old, mutation.new, 1), encoding="utf-8")
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests],
            cwd=copy,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(copy)},
            capture_output=True,
            check=False,
            timeout=TIME_LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        return False  # it never ends: noticed
    finally:
        path.write_text(text, encoding="utf-8")
    if done.returncode not in (0, 1):
        raise ValueError(f"the tests did not run on {mutation}: {done.stdout.decode()[-2000:]}")
    return done.returncode == 0


def copy_to(folder: Path) -> Path:
    """What the tests need, without the rest."""
    for name in ("checkers", "harness", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    for name in ("node", "nemesis", "workloads", "reports"):
        (folder / name).symlink_to(ROOT / name)
    return folder
