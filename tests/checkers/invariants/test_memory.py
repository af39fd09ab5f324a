"""C16, of controllers whose memory is not their image."""

from checkers.invariants.memory import TrueDeltas, TrueMemory
from checkers.replay.world import World

EVENT = {"t": "memory", "node": 2, "dir": "aa", "inc": 1, "seq": 5, "ts": 7, "ep": 3, "off": 9}
LOST = "directoriesToPartitions of d: [t-0], not null"


def test_each_kind_of_difference_is_told_once_per_process() -> None:
    memory = TrueMemory()
    assert not list(memory.feed({**EVENT, "wrong": []}, World()))
    (anomaly,) = memory.feed({**EVENT, "wrong": [LOST, LOST]}, World())
    assert anomaly.invariant == "C16"
    assert anomaly.message == f"the controller n2 has in memory at offset 9 (n2 seq 5) {LOST}"
    other = "partition t-0: leader 1, not leader 2"
    (anomaly,) = memory.feed({**EVENT, "wrong": [LOST, other]}, World())
    assert anomaly.message.endswith(other)
    assert len(list(memory.feed({**EVENT, "inc": 2, "wrong": [LOST, other]}, World()))) == 2
    assert memory.checked == 4


def test_what_deltas_come_to_is_told_likewise() -> None:
    deltas = TrueDeltas()
    event = {**EVENT, "t": "delta"}
    assert not list(deltas.feed({**event, "wrong": []}, World()))
    (anomaly,) = deltas.feed({**event, "wrong": ["credential u is 1, not null"]}, World())
    assert anomaly.invariant == "C9"
    assert "whoever follows the deltas of n2 has at offset 9 (n2 seq 5) cred" in anomaly.message
    assert deltas.checked == 2
