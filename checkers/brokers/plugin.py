"""``brokers``: what played brokers were told, against each other, time and the committed log.

The clients know when each heartbeat was sent and answered, which nobody inside a cluster knows of
a broker; the log tells when each broker was fenced. So a session must neither end early nor last
for ever, whatever the controllers say of their own sessions.

Source: KIP-631; C1, C6, C7, C12 and L10 of the catalogue.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set

from checkers.brokers.newcomers import turned_away
from checkers.brokers.sessions import Sessions
from checkers.brokers.shutdowns import kept_waiting, let_go_early, let_go_unasked
from checkers.brokers.words import (
    Registration,
    Word,
    asked_to_stop,
    caught_up,
    registrations,
    words,
)
from checkers.committed.reference import reference
from checkers.invariants.brokers import BrokerEpochs, SessionTruth, UnfenceGuard
from checkers.invariants.decisions import ShutdownGuard
from checkers.invariants.liveness import L10
from checkers.replay.clocks import kept_time
from harness.contracts.checker import RunData
from harness.contracts.evidence import LogBatch
from harness.registry import checkers
from harness.verdict import Anomaly, CheckResult, Valid

NAME = "brokers"
LEFT_IN = ", which left it unfenced"  # in an anomaly's message
EPOCHS, UNFENCED, LET_GO, SESSIONS, REVIVED = "C1", "C6", "C7", "C12", "L10"


JUDGED = (
    *(BrokerEpochs.meaning, UnfenceGuard.meaning, ShutdownGuard.meaning),
    *(SessionTruth.meaning, L10),
)


@checkers.register(NAME, needs=("records",), judges=JUDGED)
def brokers(run: RunData) -> CheckResult:
    """Broker epochs rise, lagging brokers stay fenced, sessions and shutdowns end in time.

    Of nodes that tell no events nobody knows when the end of a session was committed: those are
    left out.

    Raises:
        HistoryFormatError: Ops that do not pair, or values of another shape.
    """
    said = words(run.history)
    by_broker: dict[int, list[Word]] = defaultdict(list)
    for word in said:
        by_broker[word.broker].append(word)
    registered, since = registrations(run.history), caught_up(run.history)
    log = reference(run).log
    begins, left_in = log[0].base if log else 0, frozenset(_left_in(log))
    checked: Counter[str] = Counter()
    anomalies: list[Anomaly] = []
    for each in by_broker.values():
        anomalies += _epochs(each, registered, checked)
        seen = [word for word in each if word.epoch >= begins]
        anomalies += _let_in(seen, since, left_in, checked)
        anomalies += _revived(each, checked)
    if kept_time(run) and any(run.events.values()):
        sessions = Sessions(run, said, log)
        anomalies += sessions.judge()
        checked[SESSIONS] += sessions.checked
        refusals, turned = turned_away(run, sessions.services)
        known = sessions.services, sessions.claims, sessions.unsure, log
        waits, kept = kept_waiting(said, *known)
        checked[LET_GO], early = let_go_early(said, *known)
        checked[REVIVED] += refusals + waits
        anomalies += [*turned, *kept, *early]
    unasked, told = let_go_unasked(said, asked_to_stop(run.history))
    checked[LET_GO] += unasked
    anomalies += told
    reason = None if said else "no broker was told anything: nothing was judged"
    verdict = Valid.UNKNOWN if reason else Valid.VALID
    return CheckResult(
        NAME,
        Valid.INVALID if anomalies else verdict,
        tuple(sorted(anomalies, key=lambda a: (a.time_ns or 0, a.message))),
        checked={name: checked[name] for name in (EPOCHS, UNFENCED, LET_GO, SESSIONS, REVIVED)},
        reason=reason,
    )


def _epochs(
    said: Sequence[Word], registered: Sequence[Registration], checked: Counter[str]
) -> Iterator[Anomaly]:
    """Epochs rise with each incarnation, which keeps its own; who has an old one is refused.

    An incarnation that another one has taken the place of may come back, as a new one.
    """
    newest: Word | None = None  # of those that were told their epoch, whose is the highest
    given: dict[str, Word] = {}
    ended = sorted((w for w in said if w.f == "register"), key=lambda w: w.done_ns)
    place = 0
    for word in sorted(said, key=lambda w: w.invoked_ns):
        while place < len(ended) and ended[place].done_ns < word.invoked_ns:
            if newest is None or ended[place].epoch > newest.epoch:
                newest = ended[place]
            place += 1
        checked[EPOCHS] += 1
        if word.f == "register":
            first = given.setdefault(word.incarnation, word)
            if first.epoch != word.epoch and not _replaced(first, word, registered):
                yield word.anomaly(
                    EPOCHS,
                    f"got epoch {word.epoch} in the incarnation that had got {first.epoch}",
                    first,
                )
            elif first.epoch < word.epoch:
                given[word.incarnation] = word
        again = newest is not None and word.incarnation == newest.incarnation
        if newest is not None and not again and word.epoch < newest.epoch:
            yield word.anomaly(
                EPOCHS,
                f"was served with the old epoch {word.epoch} after it got {newest.epoch}",
                newest,
            )


def _replaced(one: Word, other: Word, registered: Sequence[Registration]) -> bool:
    """Tell whether another incarnation may have come between two answers to the same one."""
    first, second = sorted((one, other), key=lambda word: word.epoch)
    return first.invoked_ns < second.done_ns and any(
        each.broker in (None, one.broker)
        and each.incarnation != one.incarnation
        and each.may_be_between(first, second)
        for each in registered
    )


def _let_in(
    said: Sequence[Word],
    since: Mapping[tuple[int, int], int],
    left_in: Set[tuple[int, int]],
    checked: Counter[str],
) -> Iterator[Anomaly]:
    """A broker is let in only when it says that it has read its own registration."""
    for word in said:
        if word.f == "register" or word.offset >= word.epoch:
            continue
        checked[UNFENCED] += 1
        may_be_in = since.get((word.broker, word.epoch), word.done_ns) < word.done_ns
        if word.caught_up or (not word.fenced and not may_be_in):
            yield word.anomaly(
                UNFENCED,
                f"was unfenced at offset {word.offset}, before its registration at {word.epoch}"
                + (LEFT_IN if (word.broker, word.epoch) in left_in else ""),
            )


def _left_in(log: Sequence[LogBatch]) -> Iterator[tuple[int, int]]:
    """Find brokers and epochs whose registrations, by the log, are those of brokers in service."""
    for batch in log:
        for record in () if batch.control else batch.records:
            fields = record.get("fields") or {}
            if record.get("type") == "RegisterBrokerRecord" and fields.get("fenced") is False:
                yield fields["broker_id"], fields["broker_epoch"]


def _revived(said: Sequence[Word], checked: Counter[str]) -> Iterator[Anomaly]:
    """In peace a broker that has caught up is let in at once, if not let go as it had wanted.

    Whoever came back at the same time may have registered it anew: under the same epoch, but by a
    later record, up to which it had not caught up.
    """
    coming = [word for word in said if word.f in ("revive", "register")]
    for word in coming:
        if word.f != "revive" or word.offset < word.epoch:
            continue
        if any(_overlap(word, other) for other in coming if other is not word):
            continue
        checked[REVIVED] += 1
        if word.fenced and not word.shut_down:
            yield word.anomaly(
                REVIVED, f"is still fenced at offset {word.offset} although it had caught up"
            )


def _overlap(one: Word, other: Word) -> bool:
    return one.invoked_ns < other.done_ns and other.invoked_ns < one.done_ns
