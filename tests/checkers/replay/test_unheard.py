"""Checks which nodes are named because none of their Fetches reaches its target."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.replay.unheard import ASKED_MIN, unheard

Event = dict[str, Any]
ENOUGH = ASKED_MIN + 2
OTHER = {"t": "hwm", "v": 1, "rx_ns": 50}


def asks(to: int, times: int, rx_ns: int = 20) -> list[Event]:
    return [{"t": "fetch_tx", "off": 0, "to": to, "rx_ns": rx_ns}] * times


def takes(from_: int, rx_ns: int = 20) -> Event:
    return {"t": "fetch_rx", "from": from_, "res": "OK", "rx_ns": rx_ns}


def test_who_asks_in_vain_is_named() -> None:
    found = unheard({"n1": asks(2, ENOUGH), "n2": [OTHER, takes(3)], "n3": asks(2, 9)}, 10)
    assert found == {"n1": f"n2 took none of the {ENOUGH} Fetches that n1 sent to it"}


@pytest.mark.parametrize(
    ("own", "of_peer"),
    [
        (asks(2, ENOUGH), [takes(1)]),
        (asks(2, ASKED_MIN - 1), [OTHER]),
        (asks(2, ENOUGH, rx_ns=9), [OTHER]),
        (asks(2, ENOUGH), [{**OTHER, "rx_ns": 9}]),
        (asks(3, ENOUGH), [OTHER]),
        ([{"t": "fetch_tx", "off": 0}] * ENOUGH, [OTHER]),
    ],
    ids=["heard", "few", "before", "the peer is gone", "the peer tells nothing", "no times"],
)
def test_nobody_else_is(own: list[Event], of_peer: list[Event]) -> None:
    assert unheard({"n1": own, "n2": of_peer}, 10) == {}
