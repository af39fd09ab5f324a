"""L12, of nodes that poll without a pause."""

from checkers.invariants.spinning import Spinning
from checkers.replay.world import World


def test_a_node_that_tells_of_it_is_named() -> None:
    event = {"t": "spin", "node": 2, "dir": "aa", "inc": 1, "seq": 5, "ts": 7, "ep": 3}
    event |= {"n": 100, "as": "follower"}
    (anomaly,) = Spinning().feed(event, World())
    assert anomaly.invariant == "L12"
    assert "n2 polled without a pause as follower" in anomaly.message
