"""A small change to a checker, and the test that must notice it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutation:
    """``old``, which stands once in ``file`` of ``checkers/``, becomes ``new``.

    ``test`` is a function of a file in ``tests/``: ``nemesis/test_sim.py::test_a_name``.
    """

    file: str
    old: str
    new: str
    test: str


def of(file: str, test_file: str, *rows: tuple[str, str, str]) -> tuple[Mutation, ...]:
    """Changes to one file, each as (old, new, test), which tests of one file notice."""
    return tuple(Mutation(file, old, new, f"{test_file}::{test}") for old, new, test in rows)
