"""Which configurations stand for others: nothing may be lost with those that are dropped."""

from __future__ import annotations

import pytest

from checkers.linearizability.layers import Layers

LOOK, LOST, CALL = 0b001, 0b010, 0b100  # a read, a write of unknown outcome, another call


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((CALL, 0), (CALL, 0), True),  # alike
        ((0, CALL), (0, 0), True),  # what could be done leaves more open than what is not
        ((0, 0), (0, CALL), False),
        ((0, CALL), (CALL, 0), True),  # or than what is
        ((CALL, 0), (0, 0), False),  # done, and not done: neither can do what the other can
        ((0, 0), (CALL, 0), False),
        ((LOOK, 0), (0, 0), True),  # a read that is done needs no place any more
        ((0, 0), (LOOK, 0), False),
        ((0, 0), (LOST, 0), True),  # what nobody has to do can still be done
        ((LOST, 0), (0, 0), False),
    ],
)
def test_one_configuration_stands_for_another(
    one: tuple[int, int], other: tuple[int, int], expected: bool
) -> None:
    layers = Layers(seeing=LOOK, unknown=LOST)

    assert layers.stands_for(("x", *one), ("x", *other)) is expected
    if expected:  # so it comes first when a layer is cut
        assert layers.options(("x", *one)) >= layers.options(("x", *other))
