"""Tells which simulations of the unchanged node come to a line of it.

A simulation that does not come to a changed place plays as it does without the change, to the
byte: it need not be played again.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from coverage import Coverage

from bench.support.mutations import Mutation

CALM = 0  # the number of the run without faults; those of seeds are the seeds

Lines = Mapping[str, Mapping[str, int]]  # file, line, and a bit for each number that came there


@dataclass(frozen=True, slots=True)
class Played:
    """One simulation of the unchanged node: its cost, its trace, and whether it came to a place."""

    cpu_s: float
    sha256: str  # of its trace
    reaches: bool  # it came to the place that is changed now, or may have

    @classmethod
    def of_all(cls, runs: Iterable[tuple[float, str]], reaching: int) -> list[Self]:
        """Make one for each simulation, by number; a set bit says that it comes to the place."""
        return [
            cls(cpu_s, sha256, bool(reaching >> number & 1))
            for number, (cpu_s, sha256) in enumerate(runs)
        ]


@dataclass(frozen=True, slots=True)
class Source:
    """The statements of a file, to find all lines of one."""

    first: list[int] = field(default_factory=list)
    last: list[int] = field(default_factory=list)  # of its head, if it has a body

    @classmethod
    def of(cls, text: str) -> Self:
        """Take the statements of a text, outer ones before those inside of them."""
        found = cls()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.stmt):
                body = getattr(node, "body", None)
                end = body[0].lineno - 1 if body else node.end_lineno or node.lineno
                found.first.append(node.lineno)
                found.last.append(max(node.lineno, end))
        return found

    def around(self, line: int) -> range:
        """Give the lines of the innermost statement that a line is in."""
        inside = [
            (first, last)
            for first, last in zip(self.first, self.last, strict=True)
            if first <= line <= last
        ]
        first, last = max(inside, default=(line, line))
        return range(first, last + 1)


def lines(play: Callable[[int], object], numbers: Sequence[int], root: Path) -> Lines:
    """Play simulations by their numbers, and tell which lines of the node each came to.

    Lines that are executed while modules are imported count for all of them. Call it before the
    node is imported.
    """
    coverage = Coverage(data_file=None, config_file=False, source=[str(root / "node")])
    coverage.start()
    for number in numbers:
        coverage.switch_context(str(number))
        play(number)
    coverage.stop()
    data = coverage.get_data()
    return {
        str(Path(file).relative_to(root)): {
            str(line): sum(1 << int(context) for context in contexts if context)
            for line, contexts in data.contexts_by_lineno(file).items()
        }
        for file in data.measured_files()
    }


def reaching(mutation: Mutation, source: Source, known: Lines) -> int:
    """Set a bit for each simulation that executes the statement of a mutation."""
    found = known.get(mutation.file, {})
    bits = 0
    for line in source.around(mutation.line):
        bits |= found.get(str(line), 0)
    return bits
