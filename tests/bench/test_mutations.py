"""Mutations of source code: each changes what it says, alone, and nothing that only tells."""

import ast
import subprocess
import sys
from itertools import islice
from pathlib import Path
from random import Random
from textwrap import dedent

import pytest

from bench.support.mutations import Mutation, draw, mutated, mutations

SOURCE = dedent(
    '''
    """A module."""
    LIMIT = 3

    class Log:
        def __init__(self, end: int = 0) -> None:
            self.end = end

        def append(self, size: int) -> bool:
            """Append."""
            if size <= 0 or not self.open:
                return False
            self.trace("append", size=size + 1)
            self._trace_end(size + 1)
            self.disk.write(size)
            self.end += size
            if self.end is None:
                raise ValueError(f"end {self.end + 1}")
            return max(self.end, 5) - 1 > LIMIT
    '''
)


WRITE, GROW = "self.disk.write(size)", "self.end += size"


def texts(source: str = SOURCE) -> set[str]:
    return {f"{m.operator}: {m.before} -> {m.after}" for m in mutations("log.py", source)}


def test_what_is_changed() -> None:
    assert texts() == {
        "dropped guard: if size <= 0 or not self.open: return False -> pass",
        "connective: size <= 0 or not self.open -> size <= 0 and (not self.open)",
        "dropped condition: size <= 0 or not self.open -> not self.open",
        "dropped condition: size <= 0 or not self.open -> size <= 0",
        "bound: size <= 0 -> size < 0",
        "constant: 0 -> 1",
        "negation: not self.open -> self.open",
        "constant: False -> True",
        "dropped effect: self.disk.write(size) -> pass",
        f"swapped order: {WRITE}; {GROW} -> {GROW}; {WRITE}",
        "dropped effect: self.end += size -> pass",
        "equality: self.end is None -> self.end is not None",
        "bound: max(self.end, 5) - 1 > LIMIT -> max(self.end, 5) - 1 >= LIMIT",
        "arithmetic: max(self.end, 5) - 1 -> max(self.end, 5) + 1",
        "bound: max(self.end, 5) -> min(self.end, 5)",
        "constant: 5 -> 6",
        "constant: 1 -> 2",
    }


def test_each_mutation_changes_the_tree_and_two_never_alike() -> None:
    found = mutations("log.py", SOURCE)
    trees = [ast.dump(mutated(SOURCE, mutation)) for mutation in found]
    assert len({*trees, ast.dump(ast.parse(SOURCE))}) == len(found) + 1
    for tree in (mutated(SOURCE, mutation) for mutation in found):
        compile(tree, "log.py", "exec")


def test_a_mutation_of_another_source_is_refused() -> None:
    mutation = mutations("log.py", SOURCE)[-1]
    with pytest.raises(ValueError, match=r"log\.py has no such place any more"):
        mutated("LIMIT = 3\n", mutation)


def test_a_draw_is_the_seeds_and_takes_each_operator_as_often() -> None:
    found = [
        Mutation("a.py", line, operator, line, "x", "y")
        for operator, places in (("bound", 1000), ("negation", 10))
        for line in range(places)
    ]
    drawn = list(islice(draw(found, Random(7)), 14))
    assert drawn == list(islice(draw(list(reversed(found)), Random(7)), 14))
    assert drawn != list(islice(draw(found, Random(8)), 14))
    assert sum(m.operator == "negation" for m in drawn) >= 3
    everything = list(draw(found, Random(7)))
    assert len(everything) == len(set(everything)) == len(found)


GROWN = "def grown(size):\n    return size + 1\n"
# Names that begin with two underscores mean others in a class.
OF_A_CLASS = (
    "class _Log:\n    def grown(self, size):\n        return size + 1\ngrown = _Log().grown\n"
)


@pytest.mark.parametrize("source", [GROWN, OF_A_CLASS], ids=["function", "method"])
def test_a_planted_mutation_is_what_a_process_imports(source: str, tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "__init__.py").write_text("")
    (tmp_path / "log" / "file.py").write_text(source)
    mutation = next(m for m in mutations("log/file.py", source) if m.operator == "arithmetic")
    program = (
        "import sys; from pathlib import Path; from bench.support.mutations import *;"
        f" sys.path.insert(0, {str(tmp_path)!r}); plant(Mutation(**{mutation.to_json()!r}),"
        f" Path({str(tmp_path)!r})); import log.file;"
        " print(reached(), log.file.grown(5), reached());"
        f" plant(Mutation(**{mutation.to_json()!r}), Path({str(tmp_path)!r}))"
    )
    done = subprocess.run(
        (sys.executable, "-c", program), capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["False", "4", "True"]
    assert "log.file was imported before it was mutated" in done.stderr
