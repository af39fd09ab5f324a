"""Real-time order: the sweep finds what a look at all pairs finds."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from checkers.replay.real_time import with_highest_before


@dataclass(frozen=True, slots=True)
class Answered:
    invoked_ns: int
    done_ns: int
    rank: int


OPS = st.builds(
    lambda at, took, rank: Answered(at, at + took, rank),
    st.integers(0, 20),
    st.integers(0, 10),
    st.integers(0, 5),
)


@given(st.lists(OPS, max_size=12))
def test_each_op_is_given_the_highest_that_was_done_before_it(ops: list[Answered]) -> None:
    found = [(op, best.rank) for op, best in with_highest_before(ops, lambda op: op.rank)]
    wanted = []
    for op in sorted(ops, key=lambda op: op.invoked_ns):
        before = [other.rank for other in ops if other.done_ns < op.invoked_ns]
        if before:
            wanted.append((op, max(before)))
    assert found == wanted
