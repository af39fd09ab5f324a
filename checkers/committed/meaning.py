"""The meaning of a committed log: what a user could see of it, without ids, offsets and times.

Two systems that were asked for the same may order, retry and refuse otherwise, and so end in other
states. Which differences that explains is told here; one that nothing explains is a defect of
either system, or of what compares them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from checkers.committed.effects import REGISTER_CONFIG, REGISTER_PREFIX, write_of_op
from checkers.committed.fold import MetadataFold
from checkers.committed.reference import reference
from checkers.replay.trace import Event
from checkers.replay.voter_sets import keys_of
from checkers.replay.world import Commits
from harness.contracts.checker import RunData
from harness.history.ops import Interval

TOPIC = 2  # type of a resource
BLOCK = 1000  # producer ids that are given away at once
Attempts = Mapping[tuple[str, str], Sequence[Interval]]


@dataclass(frozen=True, slots=True)
class Meaning:
    """The state that a run ended in, by the committed log on its disks."""

    registers: Mapping[str, str]
    topics: frozenset[str]
    brokers: frozenset[int]  # that clients play; nodes of the run may or may not register
    blocks: int  # of producer ids that were given away
    voters: frozenset[int]


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that two runs ended with otherwise; ``why`` is None where nothing explains it."""

    what: str
    why: str | None


def meaning_of(run: RunData, commits: Commits) -> Meaning:
    """The meaning of a run that went to its end; raises RecordError, ImageError."""
    known, fold = reference(run, commits), MetadataFold()
    if known.snapshot is not None:
        fold.load(known.snapshot.records, known.snapshot.end)
    for batch in known.batches(commits.end):
        for place, record in enumerate(() if batch.control else batch.records):
            offset = record.get("offset")
            fold.apply(record, offset if isinstance(offset, int) else batch.base + place)
    image = fold.image
    return Meaning(
        {
            name.removeprefix(REGISTER_PREFIX): values[REGISTER_CONFIG]
            for (kind, name), values in sorted(image.configs.items())
            if kind == TOPIC and name.startswith(REGISTER_PREFIX) and REGISTER_CONFIG in values
        },
        frozenset(image.topics),
        frozenset(image.brokers) - _numbers(run.observers),
        image.next_producer_id // BLOCK,
        _voters(run),
    )


def _voters(run: RunData) -> frozenset[int]:
    """The ids of the newest voter set that any node has gone by in the end."""
    newest: Event | None = None
    for events in run.events.values():
        for event in events:
            if event["t"] == "voters" and event.get("off") is not None:
                newest = event if newest is None or event["off"] >= newest["off"] else newest
    keys = None if newest is None else keys_of(newest["set"])
    return frozenset(key.node for key in keys or ()) or _numbers(run.voters)


def _numbers(nodes: Sequence[str]) -> frozenset[int]:
    return frozenset(int(name.removeprefix("n")) for name in nodes)


def differences(
    one: tuple[RunData, Meaning], other: tuple[RunData, Meaning], names: tuple[str, str]
) -> Iterator[Difference]:
    """Tell what two runs of the same ops and faults ended with otherwise, and why."""
    (run, here), (again, there) = one, other
    attempts = _attempts(run), _attempts(again)
    for key in sorted(here.registers.keys() | there.registers.keys()):
        values = here.registers.get(key), there.registers.get(key)
        if values[0] != values[1]:
            yield Difference(
                f"register {key} is {values[0]} and {values[1]}",
                _why_values(key, values, attempts, names),
            )
    why = _why_outcomes(run, again)
    for what, mine, theirs in (
        ("topics", here.topics, there.topics),
        ("brokers", here.brokers, there.brokers),
    ):
        odd = sorted(map(str, mine ^ theirs))
        if odd:
            yield Difference(f"only one has the {what} {', '.join(odd)}", why)
    if here.blocks != there.blocks:
        yield Difference(f"{here.blocks} and {there.blocks} blocks of producer ids are given", why)
    if here.voters != there.voters:
        told = " and ".join(str(sorted(each.voters)) for each in (here, there))
        yield Difference(f"the voters are {told}", None)


def _attempts(run: RunData) -> Attempts:
    found: dict[tuple[str, str], list[Interval]] = defaultdict(list)
    for interval in run.history.intervals():
        write = write_of_op(interval.invocation)
        if write is not None:
            found[write].append(interval)
    return found


def _why_values(
    key: str,
    values: tuple[str | None, str | None],
    attempts: tuple[Attempts, Attempts],
    names: tuple[str, str],
) -> str | None:
    """Tell why the last write of a register is another one."""
    for value in filter(None, values):
        for tries, name in zip(attempts, names, strict=True):
            outcomes = [each.outcome for each in tries.get((key, value), ())]
            if outcomes != ["ok"]:
                ended = " and ".join(outcomes) or "nothing: it was never asked for"
                return f"the write of {value} ended as {ended} in {name}"
    pair = [value for value in values if value is not None]
    for tries, name in zip(attempts, names, strict=True):
        spans = [tries[key, value][0] for value in pair]
        if len(spans) == len(values) and _overlap(*spans):
            return f"the writes of {' and '.join(pair)} were under way at the same time in {name}"
    return None


def _overlap(one: Interval, other: Interval) -> bool:
    assert one.completion is not None  # noqa: S101 - both are ok
    assert other.completion is not None  # noqa: S101
    return (
        one.invocation.time_ns < other.completion.time_ns
        and other.invocation.time_ns < one.completion.time_ns
    )


def _why_outcomes(run: RunData, again: RunData) -> str | None:
    """Tell how many ops ended otherwise."""
    counts = [
        Counter((each.invocation.f, each.outcome) for each in data.history.intervals())
        for data in (run, again)
    ]
    odd = sorted((counts[0] - counts[1]).keys() | (counts[1] - counts[0]).keys())
    if not odd:
        return None
    told = [f"{f} {outcome}: {counts[0][f, outcome]}/{counts[1][f, outcome]}" for f, outcome in odd]
    return f"ops ended otherwise ({', '.join(told)})"
