"""L9: a crash costs few elections, and candidates do not fall into lock-step.

Where links are as they should be, two voters that stand at the same moment have drawn other
timeouts before they stand again. Without pre-votes (KIP-996) a voter whose log is behind stands,
too, and rightly loses: such elections do not count. Source: KAFKA-18345.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from checkers.liveness.calm import Calm
from checkers.replay.trace import Event
from harness.history.ops import History
from harness.verdict import Anomaly

# One split vote is usual, since fetch timeouts are not random; each one more needs two timeouts to
# end within a message's time, some 200 us in a thousand ms.
IN_VAIN_MAX: Final = 3

Events = Mapping[str, Sequence[Event]]


def futile_elections(
    history: History, events: Events, voters: Collection[str]
) -> tuple[int, list[Anomaly]]:
    """Epochs in a row in which voters stood and nobody won, while a minority was down at most.

    Returns:
        How many epochs with a candidate were looked at, and what was found.
    """
    calm = Calm.of(history)
    stood, won = _candidacies(events)
    behind = _behind(events)
    starts = sorted(e["rx_ns"] for of_node in events.values() for e in of_node if e["t"] == "start")
    in_vain: list[int] = []
    anomalies: list[Anomaly] = []
    for epoch in sorted(stood):
        began_ns = stood[epoch][0]["rx_ns"]
        since_ns = stood[in_vain[0]][0]["rx_ns"] if in_vain else began_ns
        new_crash = calm.crashed(since_ns, began_ns) or any(
            since_ns < at_ns <= began_ns for at_ns in starts
        )
        if epoch in won or new_crash or not _could_elect(voters, calm, since_ns, began_ns):
            in_vain.clear()
        can_win = any(
            2 * (len(voters) - len(behind[epoch, each["node"]])) > len(voters)
            for each in stood[epoch]
        )
        if epoch not in won and can_win and _could_elect(voters, calm, began_ns, began_ns):
            in_vain.append(epoch)
        if len(in_vain) == IN_VAIN_MAX + 1:
            anomalies.append(_lockstep([stood[each] for each in in_vain]))
    return len(stood), anomalies


def _could_elect(voters: Collection[str], calm: Calm, begin_ns: int, end_ns: int) -> bool:
    """Tell whether a majority was up in all of that stretch, and nothing else was wrong."""
    up = set(voters) - calm.down(begin_ns, end_ns)
    return 2 * len(up) > len(voters) and calm.covers(begin_ns, end_ns)


def _candidacies(events: Events) -> tuple[dict[int, list[Event]], set[int]]:
    """Tell who stood, by epoch and in order, and the epochs that somebody won."""
    stood: dict[int, list[Event]] = defaultdict(list)
    won: set[int] = set()
    for event in (e for of_node in events.values() for e in of_node):
        if event["t"] == "role" and event["to"] == "candidate":
            stood[event["ep"]].append(event)
        elif event["t"] == "elected":
            won.add(event["ep"])
    return {ep: sorted(each, key=lambda e: e["rx_ns"]) for ep, each in stood.items()}, won


def _behind(events: Events) -> Mapping[tuple[int, int], set[int]]:
    """Tell who refused a vote for a log that is behind its own, by epoch and candidate."""
    refused: Mapping[tuple[int, int], set[int]] = defaultdict(set)
    for event in (e for of_node in events.values() for e in of_node if e["t"] == "vote"):
        is_behind = (event["cl_ep"], event["cl_leo"]) < (event["my_ep"], event["my_leo"])
        if not event["ok"] and not event["pre"] and is_behind:
            refused[event["ep"], event["cand"]].add(event["node"])
    return refused


def _lockstep(rounds: Sequence[Sequence[Event]]) -> Anomaly:
    first, last = rounds[0][0], rounds[-1][-1]
    who = "; ".join(
        f"epoch {each[0]['ep']}: " + ", ".join(f"n{e['node']}" for e in each) for each in rounds
    )
    return Anomaly(
        "L9",
        f"voters stood {len(rounds)} times in a row and nobody won, with nothing wrong but that"
        f" nodes were down ({who})",
        events=(dict(first), dict(last)),
        time_ns=last["rx_ns"],
    )
