"""L7: no voter is stuck in a role that a timer ends, at any time of the run.

Whoever has no leader goes on within twice the election timeout: an unattached voter stands, a
prospective or candidate wins or gives up, a resigned leader leaves its epoch. Only a vote that it
gives buys an unattached voter more time, not one that it refuses. A candidate of Kafka before 4.0
then backs off, and says so when it stands again. A follower of which its leader accepts no Fetch
any more stands a fetch timeout after it last heard of it. Source: KIP-595, KIP-996.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Final

from checkers.liveness.calm import Calm
from checkers.replay.trace import Event
from harness.history.ops import History
from harness.verdict import Anomaly

MS: Final = 1_000_000  # in ns
SLACK_NS: Final = 300 * MS
# Families that stop no process, no clock and no disk: timers go by these alone.
HARMLESS: Final = frozenset({"kill", "power", "partition", "packets", "membership"})
_TIMED: Final = frozenset({"unattached", "prospective", "candidate", "resigned"})
_TAKEN: Final = frozenset({"ok", "diverging", "snapshot"})  # results of a Fetch that sets the timer
_AS_GOOD: Final = frozenset({"FetchSnapshot", "UpdateVoter"})  # requests that set it, too
_HEARS: Final = frozenset({"append", "trunc", "snap", "hwm"})  # what a follower does by an answer


def stuck_elections(
    history: History,
    voters: Mapping[str, Sequence[Event]],
    election_timeout_ms: int,
    backoff_max_ms: int,
) -> tuple[int, list[Anomaly]]:
    """Voters that stayed for too long in a role that an election timer ends.

    Args:
        history: Of the run; tells when clocks, disks and processes were as they should be.
        voters: The events of the nodes that are voters from first to last.
        election_timeout_ms: T of ``T + uniform[0, T)``.
        backoff_max_ms: How long a candidate may back off: so long a silent one may have.

    Returns:
        How many stays were looked at, and the first that was too long of each node.
    """
    calm = Calm.of(history, HARMLESS)
    over_ns = _over_ns(history)
    limit_ns = 2 * election_timeout_ms * MS + SLACK_NS
    checked, found = 0, list[Anomaly]()
    for events in voters.values():
        for entered, until in _stays(events):
            begin_ns, end_ns = entered["rx_ns"], min(until["rx_ns"], over_ns)
            if not calm.covers(begin_ns, min(end_ns, begin_ns + limit_ns)):
                continue
            checked += 1
            if end_ns > begin_ns + limit_ns + _backoff_ms(entered, until, backoff_max_ms) * MS:
                found.append(_stuck(entered, until, end_ns - begin_ns, election_timeout_ms))
                break
    return checked, found


def stuck_followers(
    history: History,
    voters: Mapping[str, Sequence[Event]],
    fetch_timeout_ms: int,
    request_timeout_ms: int,
) -> tuple[int, list[Anomaly]]:
    """Voters that went on to follow a leader of which they heard no more.

    An answer may be on its way for as long as the request may take, and sets the timer then.

    Args:
        history: Of the run; tells when clocks, disks and processes were as they should be.
        voters: The events of the nodes that are voters from first to last.
        fetch_timeout_ms: How long a follower waits for its leader.
        request_timeout_ms: How long an answer may take.

    Returns:
        How many stays were looked at, and the first that was too long of each node.
    """
    calm = Calm.of(history, HARMLESS)
    over_ns = _over_ns(history)
    taken = _accepted(voters.values())
    late_ns = request_timeout_ms * MS
    limit_ns = fetch_timeout_ms * MS + SLACK_NS
    checked, found = 0, list[Anomaly]()
    for events in voters.values():
        for stay in _follows(events):
            checked += 1
            end_ns = min(stay[-1]["rx_ns"], over_ns)
            node, begin_ns = stay[0]["node"], stay[0]["rx_ns"]
            heard = [(at, at + late_ns) for at in taken[node] if begin_ns <= at <= end_ns]
            heard += [(each["rx_ns"], each["rx_ns"]) for each in stay[:-1] if _hears(each)]
            silence = _silence(sorted(heard), end_ns, limit_ns)
            if silence is not None and calm.covers(begin_ns, silence[0] + limit_ns):
                found.append(_deserted(stay, silence[1] - silence[0], fetch_timeout_ms))
                break
    return checked, found


def _accepted(voters: Iterable[Sequence[Event]]) -> Mapping[int, list[int]]:
    """When a leader took a Fetch, or another request that keeps its follower, by who sent it."""
    taken: dict[int, list[int]] = defaultdict(list)
    for events in voters:
        for event in events:
            if event["t"] == "fetch_rx":
                sender = event.get("from") if event["res"] in _TAKEN else None
            elif event["t"] == "rpc_ok" and event["api"] in _AS_GOOD:
                sender = event.get("peer")
            else:
                continue
            if sender is not None:
                taken[sender].append(event["rx_ns"])
    return taken


def _follows(events: Sequence[Event]) -> Iterator[list[Event]]:
    """Give all events from when a process follows until it does not, or ends."""
    stay: list[Event] = []
    for event in events:
        if event["t"] == "start":
            if len(stay) > 1:
                yield stay
            stay = []
        elif event["t"] in {"role", "stop"}:
            if stay:
                yield [*stay, event]
            stay = [event] if event["t"] == "role" and event["to"] == "follower" else []
        elif stay:
            stay.append(event)
    if len(stay) > 1:
        yield stay


def _hears(event: Event) -> bool:
    """Tell whether an event of a follower shows that it hears of its leader."""
    announced = event["t"] == "rpc_ok" and event["api"] == "BeginQuorumEpoch"
    return announced or event["t"] in _HEARS or event["t"] == "role"


def _silence(
    heard: Iterable[tuple[int, int]], end_ns: float, limit_ns: int
) -> tuple[int, float] | None:
    """Give the first time without a word that is longer than allowed; None: there is none.

    Of each word in ``heard`` it is known when it came at the earliest, and at the latest.
    """
    last_ns: int | None = None
    for earliest_ns, latest_ns in (*heard, (end_ns, end_ns)):
        if last_ns is not None and earliest_ns - last_ns > limit_ns:
            return last_ns, earliest_ns
        last_ns = max(last_ns or 0, int(latest_ns))
    return None


def _deserted(stay: Sequence[Event], silent_ns: float, fetch_timeout_ms: int) -> Anomaly:
    first, last = stay[0], stay[-1]
    return Anomaly(
        "L7",
        f"n{first['node']} followed n{first.get('leader')} in epoch {first['ep']} for"
        f" {silent_ns / 1e9:.3f} s after the last answer to its fetches may have come, though it"
        f" waits for {fetch_timeout_ms} ms only",
        events=(dict(first), dict(last)),
        time_ns=last["rx_ns"],
    )


def _over_ns(history: History) -> float:
    """Tell when the run was over, and its nodes were stopped: a leader resigns then, and waits."""
    settled = [op.time_ns for op in history.nemesis() if op.f == "settle"]
    return settled[1] if len(settled) > 1 else inf


def _stays(events: Sequence[Event]) -> Iterator[tuple[Event, Event]]:
    """Pair each start of an election timer with the last event while it ran."""
    entered: Event | None = None
    last: Event | None = None
    role = ""
    for event in events:
        kind = event["t"]
        begins = kind == "role" or (kind == "vote" and event["ok"] and not event["pre"])
        if kind == "start" or begins or kind == "stop":
            if entered is not None and last is not None:
                ends = last if kind == "start" else event  # who was killed saw no more than that
                yield entered, ends
            if kind == "role":
                role = event["to"]
            entered = event if begins and role in _TIMED else None
        last = event
    if entered is not None and last is not None:
        yield entered, last


def _backoff_ms(entered: Event, until: Event, backoff_max_ms: int) -> int:
    """Tell for how long a candidate backed off, or may have: only who stands again says it."""
    if entered.get("to") != "candidate":
        return 0
    again = until["t"] == "role" and until["to"] in {"candidate", "prospective"}
    return int(until.get("backoff_ms", 0)) if again else backoff_max_ms


def _stuck(entered: Event, until: Event, stay_ns: float, election_timeout_ms: int) -> Anomaly:
    what = f"was {entered['to']}" if entered["t"] == "role" else "had voted and waited"
    return Anomaly(
        "L7",
        f"n{entered['node']} {what} in epoch {entered['ep']} for {stay_ns / 1e9:.3f} s, though its"
        f" election timer ends within {2 * election_timeout_ms} ms",
        events=(dict(entered), dict(until)),
        time_ns=until["rx_ns"],
    )
