"""C8: every image is a prefix of the committed log, and no node's image goes back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from checkers.committed.fold import Folded, MakeFold, MetadataFold, Record, digest_of, loaded
from checkers.committed.left_out import LeftOut
from checkers.committed.orphans import Deletions, without_orphans
from checkers.replay.trace import Event, label
from harness.contracts.evidence import LogSnapshot
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly
from node.metadata.image import digest_less

NAME = "C8"
CREDENTIAL = "UserScramCredentialRecord"
BY_ORPHANS = ", the same but for settings of deleted topics: "  # in an anomaly's message
BY_HEIRS = ", the same but for settings that new topics have of deleted ones: "  # likewise
BY_ELIGIBLE = ", the same but for eligible leaders, which are switched off"  # likewise
BY_LEFT_OUT = ", as after a snapshot without eligible leaders, which were switched off"  # likewise
BY_PASSWORDS = ", the same but for passwords"  # likewise
C8 = Meaning(
    "C8",
    title="image equals the fold of the log",
    promise=(
        "A node's metadata at an offset is exactly what the committed records up to there add up "
        "to, on every node. While a node runs, its metadata never goes back."
    ),
    why=(
        "Brokers answer clients from this image. If it differs, one broker knows a topic, config "
        "or ACL that another does not, until a restart and sometimes after it."
    ),
    source=(
        "MetadataLoader; MetadataImage; KRaft TLA+ specification (MetadataLogMatching); KAFKA-14275"
    ),
)
C9 = Meaning(
    "C9",
    title="delta equals the difference",
    promise=(
        "The change that a node publishes with a new image is the exact difference to the image "
        "before."
    ),
    why=(
        "The parts of a broker follow changes, not images. A topic that was created and deleted "
        "within one change may stay behind as a ghost."
    ),
    source="MetadataDelta; KAFKA-19497",
    seen_as="C8",
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state that a node says it has at an offset (exclusive).

    ``orphans`` are names of topics that it has not, though it has settings of them; ``bare`` is the
    digest of all but these settings, and ``open`` that of all but passwords. ``settings`` are the
    parts of the digest that settings of topics are that it has, by the topics' names.
    """

    offset: int
    digest: str
    event: Event
    orphans: tuple[str, ...] = ()
    bare: str | None = None
    open: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


def snapshot_in(event: Event) -> Snapshot | None:
    """The state that an ``apply`` or ``image`` event tells of."""
    kind = event["t"]
    digest = event.get("st") if kind == "apply" else event.get("digest")
    if kind not in ("apply", "image") or not isinstance(digest, str):
        return None
    orphans, bare, without = event.get("orphans", ()), event.get("bare"), event.get("open")
    settings = event.get("settings", {})
    return Snapshot(event["off"], digest, event, tuple(orphans), bare, without, settings)


def snapshot_on_disk(file: LogSnapshot, make_fold: MakeFold = MetadataFold) -> Snapshot:
    """The state that a node's snapshot file holds; raises RecordError, ImageError. O(records)."""
    state = loaded(file, make_fold)
    rest, orphans = without_orphans(file.records)
    public = [each for each in file.records if each["type"] != CREDENTIAL]
    settings = state.topic_settings()
    return Snapshot(
        file.end,
        state.digest,
        {},
        orphans,
        bare=_without(file, rest, make_fold),
        open=_without(file, public, make_fold),
        settings={name: part for name, part in settings.items() if name not in orphans},
    )


def _without(file: LogSnapshot, rest: Sequence[Record], make_fold: MakeFold) -> str | None:
    """The digest of some records of a snapshot; None: they are all that it has."""
    if len(rest) == len(file.records):
        return None
    return digest_of(replace(file, records=tuple(rest)), make_fold)


def _public(seen: Snapshot) -> Snapshot:
    """The same state without its passwords."""
    if seen.open is None:
        return seen
    passwords = digest_less(seen.digest, [seen.open])
    bare = None if seen.bare is None else digest_less(seen.bare, [passwords])
    return replace(seen, digest=seen.open, bare=bare, open=None)


@dataclass(slots=True)
class ImageChecks:
    """Compares images with the fold and with each other; ``checked`` counts the images.

    One that is ahead of the fold is judged when that gets there, or when it never will. Where one
    differs from the fold by nothing but settings of deleted topics, the anomaly says so.
    """

    folded: Folded
    deletions: Deletions = field(default_factory=Deletions)
    left_out: LeftOut = field(default_factory=LeftOut)
    checked: int = 0
    _first: dict[int, Snapshot] = field(default_factory=dict)
    _last: dict[tuple[int, int, str], int] = field(default_factory=dict)
    _reported: set[tuple[Any, ...]] = field(default_factory=set)
    _ahead: list[Snapshot] = field(default_factory=list)

    def feed(self, event: Event) -> Iterator[Anomaly]:
        """Judge one event."""
        seen = snapshot_in(event)
        if seen is None:
            return
        self.checked += 1
        yield from self._never_back(seen)
        if seen.offset > self.folded.end:
            self._ahead.append(seen)
        else:
            yield from self._judge(seen)

    def grown(self) -> Iterator[Anomaly]:
        """Judge those that the fold has reached meanwhile."""
        if self._ahead:
            ahead, self._ahead = self._ahead, []
            for seen in ahead:
                if seen.offset > self.folded.end:
                    self._ahead.append(seen)
                else:
                    yield from self._judge(seen)

    def finish(self) -> Iterator[Anomaly]:
        """Judge those that the fold has not reached: by each other."""
        ahead, self._ahead = self._ahead, []
        for seen in ahead:
            yield from self._judge(seen)

    def _judge(self, seen: Snapshot) -> Iterator[Anomaly]:
        expected = self.folded.digests.get(seen.offset)
        first = self._first.setdefault(seen.offset, seen)
        if expected is not None:
            if seen.digest != expected:
                lost = self._told(seen, expected)
                yield from self._differs(seen, f"the committed log folds to {expected}", None, lost)
        elif self.folded.begin <= seen.offset <= self.folded.end:
            yield from self._differs(seen, "no committed batch ends there", None)
        elif seen.digest != first.digest:
            where = f"n{first.event['node']} has {first.digest} ({label(first.event)})"
            yield from self._differs(seen, where, first.event)

    def judge_snapshot(self, node: str, seen: Snapshot) -> Iterator[Anomaly]:
        """Compare what a node's snapshot file holds with the fold, or with what images said."""
        end, digest = seen.offset, seen.digest
        expected = self.folded.digests.get(end)
        first = self._first.get(end)
        if expected is None and first is None:
            return
        self.checked += 1
        other = f"the committed log folds to {expected}"
        if expected is None and first is not None:
            expected, other = first.digest, f"n{first.event['node']} had {first.digest}"
        if expected is not None and digest != expected:
            lost = self._told(seen, expected)
            yield Anomaly(
                NAME,
                f"the snapshot of {node} at offset {end} holds state {digest}, but {other}{lost}",
            )

    def _told(self, seen: Snapshot, expected: str) -> str:
        """Say what alone differs, if it is settings of deleted topics, or eligible leaders, ..."""
        offset, eligible = seen.offset, self.folded.bare.get(seen.offset)
        if seen.digest == eligible:
            return BY_ELIGIBLE
        if (seen.open or seen.digest) == self.folded.open.get(offset):
            return BY_PASSWORDS
        if self.left_out.has(offset, seen.digest):
            return BY_LEFT_OUT
        of_settings = self._by_settings(seen, expected)
        if not of_settings and eligible is not None and self._by_settings(seen, eligible):
            return BY_ELIGIBLE  # and by those
        public = self.folded.open.get(offset)
        if not of_settings and (seen.open or public):
            of_both = self._by_settings(_public(seen), public or expected)
            return f"{BY_PASSWORDS}, and{of_both}" if of_both else ""
        return of_settings

    def _by_settings(self, seen: Snapshot, expected: str) -> str:
        """Say what alone differs, if it is settings of deleted topics."""
        offset, orphans = seen.offset, seen.orphans
        if orphans and seen.bare == expected and self.deletions.had_all(orphans, offset):
            return f"{BY_ORPHANS}{', '.join(orphans)}"
        due = self.folded.settings.get(offset, {})
        heirs = [
            name
            for name, part in seen.settings.items()
            if part != due.get(name) and self.deletions.had_all((name,), offset)
        ]
        rest = digest_less(seen.bare or seen.digest, [seen.settings[name] for name in heirs])
        known = heirs and self.deletions.had_all(orphans, offset)
        if known and rest == digest_less(expected, [due[name] for name in heirs if name in due]):
            return f"{BY_HEIRS}{', '.join(heirs)}"
        return ""

    def _differs(
        self, seen: Snapshot, other: str, by: Event | None, lost: str = ""
    ) -> Iterator[Anomaly]:
        """Once per node process: what follows a wrong image is wrong too.

        But settings of deleted topics alone do not hide what differs otherwise later.
        """
        node, process = seen.event["node"], seen.event["inc"]
        place = ("differs", node, process, bool(lost))
        if place in self._reported:
            return
        self._reported.add(place)
        yield _anomaly(
            f"the image of n{node} at offset {seen.offset} is {seen.digest}"
            f" ({label(seen.event)}), but {other}{lost}",
            *([by] if by is not None else []),
            seen.event,
        )

    def _never_back(self, seen: Snapshot) -> Iterator[Anomaly]:
        event = seen.event
        process = event["node"], event["inc"], event["t"]
        before = self._last.get(process, 0)
        self._last[process] = max(before, seen.offset)
        if seen.offset < before:
            yield _anomaly(
                f"the image of n{event['node']} went back from offset {before} to {seen.offset}"
                f" ({label(event)})",
                event,
            )


def _anomaly(message: str, *events: Event) -> Anomaly:
    time_ns = events[-1].get("rx_ns")
    return Anomaly(
        NAME,
        message,
        events=tuple(dict(event) for event in events),
        time_ns=time_ns if isinstance(time_ns, int) else None,
    )
