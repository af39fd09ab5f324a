"""The life of a record: who wrote it, who had it, who read or lost it, and what took its place.

Drawn of every finding that is about an offset of the log, of acknowledged writes that are lost, and
of reads that missed a write or saw it too early.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from string import ascii_uppercase

from checkers.committed.effects import write_of_op, write_of_record
from checkers.replay.world import Batch
from harness.history.ops import Op
from reports.blocks import Note, Notes, Picture
from reports.cluster import Event
from reports.defects.naming import plainly
from reports.drawing.reads import answered_reads, confirmation
from reports.drawing.records import contents
from reports.drawing.replay import Change, changes_at, word
from reports.drawing.scene import Scene, op_words
from reports.drawing.story import NOTHING, StoryBuilder, Turn
from reports.ops import Span
from reports.pictures import Finding, painter
from reports.text import clean, duration, integer, listing

STEPS_MAX = 40
VERSIONS_MAX = 6
ELECTIONS_MAX = 6
FAULTS_MAX = 6
RAILS_MAX = 9
READS_MAX = 6
EARLY = " — before it was committed"
_READS = frozenset({"S34", "C8", "linearizability"})
_ABOUT = frozenset({"S7", "S8", "S9", "S10", "S11", "S13", "S17"}) | _READS
_NAMED = re.compile(r"\b(?:batch|offsets?) (\d{1,15})\b")  # where nothing else says which
_API = {  # by which a client of ours asks for an op
    "write": "IncrementalAlterConfigs",
    "append": "IncrementalAlterConfigs",
    "create": "CreateTopics",
}
_GONE = {
    "cut": "cuts it off its log",
    "restart": "restarts without it",
    "snapshot": "installs a snapshot that ends after it",
    "disk": "loses its disk",
}


@painter(30)
def life_story(finding: Finding, scene: Scene) -> Picture | None:
    """Tell what became of the record that the finding is about, node by node."""
    offset = _offset(finding, scene)
    if offset is None:
        return None
    tale = _Tale(finding, scene, offset)
    if not tale.changes:
        return None
    return tale.picture()


def _offset(finding: Finding, scene: Scene) -> int | None:
    if not finding.events and not finding.ops and (named := _NAMED.search(finding.message)):
        return int(named[1])
    if finding.invariant not in _ABOUT:
        return None
    told = integer(finding.details.get("offset"))
    if told is None and (high := integer(finding.details.get("hwm"))) is not None:
        told = high - 1
    if told is not None:
        return told if told >= 0 else None
    spans = [span for span in map(scene.by_index.get, finding.ops) if span is not None]
    if finding.invariant in _READS:
        return _read(spans, scene)
    return next((at for span in spans if (at := _written(span, scene)) is not None), None)


def _read(spans: Sequence[Span], scene: Scene) -> int | None:
    """Find the newest write that an op wrote or returned: a stale read missed it."""
    writes = [write for span in spans if (write := write_of_op(span.invocation)) is not None]
    seen = [(end.key, str(end.value)) for span in spans if (end := _answer(span)) is not None]
    found = [at for pair in [*writes, *seen] if (at := _place(pair, scene)) is not None]
    return max(found, default=None)


def _answer(span: Span) -> Op | None:
    """Give the value that a read returned; None of anything else."""
    end = span.completion
    answered = end is not None and end.type == "ok" and span.invocation.f.endswith("read")
    return end if answered and end is not None and end.key is not None else None


def _place(write: tuple[str | None, str], scene: Scene) -> int | None:
    """Find the offset at which any node's log holds a write; None when none does."""
    for node in scene.nodes:
        for batch in scene.log(node):
            for at, record in enumerate(batch.records):
                if write_of_record(record) == write:
                    return integer(record.get("offset", batch.base + at))
    return None


def _written(span: Span, scene: Scene) -> int | None:
    """Tell where the log of any node holds what an op wrote; else what the node acknowledged."""
    write = write_of_op(span.invocation)
    if write is not None and (place := _place(write, scene)) is not None:
        return place
    acks = [event for _, event in _acks(span, scene)]
    return integer(acks[0].get("off")) if len(acks) == 1 else None


def _acks(span: Span, scene: Scene) -> Iterator[tuple[str, Event]]:
    """The acknowledgements that the op's node sent while the op was on its way."""
    node = clean(span.invocation.node, limit=60)
    end = span.completion.time_ns if span.completion else scene.end_ns
    api = _API.get(span.invocation.f)
    for event in scene.events(node):
        in_time = span.invocation.time_ns <= event["rx_ns"] <= end
        wrote = (integer(event.get("off")) or 0) >= 0
        if in_time and wrote and word(event, "t") == "ack" and api in (None, word(event, "api")):
            yield node, event


class _Tale:
    """Everything that happened at one offset."""

    def __init__(self, finding: Finding, scene: Scene, offset: int) -> None:
        self.finding, self.scene, self.offset = finding, scene, offset
        self.changes = {
            node: found
            for node in scene.nodes
            if (found := list(changes_at(scene.events(node), offset)))
        }
        firsts = sorted(
            (change.event["rx_ns"], node, change.batch)
            for node, of_node in self.changes.items()
            for change in of_node
            if change.batch is not None
        )
        self.versions = list(dict.fromkeys(batch for _, _, batch in firsts))
        self.start_ns = firsts[0][0] if firsts else 0
        self.builder = StoryBuilder()
        self.committed_ns: int | None = None  # when the first node took it for committed

    def picture(self) -> Picture:
        """The story, under the contents that it is about."""
        for node in self.changes:
            self._log(node)
        self._commits()
        self._acknowledged()
        self._reads()
        end_ns = max(self.builder.end_ns or self.start_ns, self.finding.time_ns or 0)
        self._elections(end_ns)
        self._faults(end_ns)
        self._visible()
        rails = list(self.changes)[:RAILS_MAX]
        links = {node: self.scene.link(node) for node in rails}
        where = f"offset {self.offset}"
        alt = f"The life of {where}, as a story in order of time; the steps are text."
        story = self.builder.build(rails, links, alt, STEPS_MAX)
        left_out = len(self.changes) - len(rails)
        return Picture(
            "life-story",
            f"The life of {where}: one line for each node that had it, as long as it had it",
            (Notes(tuple(self._contents())), story),
            (f"{left_out} more nodes are not drawn",) if left_out > 0 else (),
        )

    def _tone(self, batch: Batch | None) -> str:
        if batch is None:
            return NOTHING
        return f"v{self.versions.index(batch) % VERSIONS_MAX}"

    def _sign(self, batch: Batch) -> str:
        return ascii_uppercase[self.versions.index(batch) % len(ascii_uppercase)]

    def _contents(self) -> Iterator[Note]:
        for batch in self.versions[:VERSIONS_MAX]:
            words = contents(batch, self.offset, self.scene)
            text = plainly(str(batch)) + (f": {words}" if words else "")
            yield Note(self._sign(batch), self._tone(batch), text)

    def _add(
        self,
        node: str,
        event: Event,
        words: tuple[str, str, str],
        *,
        becomes: str | None = None,
        op: int | None = None,
        strong: bool = False,
    ) -> None:
        """A turn that an event tells of; ``words``: sign, tone and text of its note."""
        sign, tone, text = words
        at = event["rx_ns"]
        link = self.scene.link(node, at)
        note = Note(sign, tone, text, at, node, op, link)
        place = self.scene.place(node, event)
        self.builder.turns.append(Turn(at, node, place, note, becomes, strong))

    def _log(self, node: str) -> None:
        """Tell what the node had at the offset, and when."""
        held: Batch | None = None
        for change in self.changes[node]:
            if change.batch is not None:
                self._appended(node, change, held)
            elif change.how == "snapshot":
                words = ("S", "t-quiet", _GONE["snapshot"])
                self._add(node, change.event, words, becomes=NOTHING)
            elif held is not None:
                text = _GONE.get(change.how, change.how)
                lost = f"{text}: {self._sign(held)} is gone here"
                self._add(node, change.event, ("✗", "t-bad", lost), becomes=NOTHING, strong=True)
            held = change.batch

    def _appended(self, node: str, change: Change, before: Batch | None) -> None:
        assert change.batch is not None  # noqa: S101 - the caller looked
        batch, event = change.batch, change.event
        sign = self._sign(batch)
        leads = event.get("src") == "leader"
        text = f"{'writes' if leads else 'copies'} {sign}, as {'leader' if leads else 'follower'}"
        if before is not None and before != batch:
            text += f", over {self._sign(before)}"
        text += self._flushed(node, event)
        tone = self._tone(batch)
        self._add(node, event, (sign, tone, text), becomes=tone, strong=leads)

    def _flushed(self, node: str, appended: Event) -> str:
        """Tell when it was on the disk, in words."""
        for event in self.scene.events(node)[self.scene.place(node, appended) :]:
            kind = event.get("t")
            if kind == "flush" and (upto := integer(event.get("upto"))) is not None:
                if upto > self.offset:
                    took = event["rx_ns"] - appended["rx_ns"]
                    return f"; on its disk {duration(took)} later" if took else "; on its disk"
            elif kind == "start" or (kind == "trunc" and _at_most(event.get("to"), self.offset)):
                return "; never flushed to its disk"
        return ""

    def _commits(self) -> None:
        """Tell when leaders took what they had for committed; others only where that is news."""
        told: set[tuple[str, Batch]] = set()
        committed: Batch | None = None  # what the first of them had
        marks = [
            (node, event, value)
            for node, event in self.scene.told(frozenset({"hwm"}))
            if (value := integer(event.get("v"))) is not None
            and value > self.offset
            and node in self.changes
        ]
        for node, event, value in sorted(marks, key=lambda mark: int(mark[1]["rx_ns"])):
            held = self._held(node, event)
            if held is None or (node, held) in told:
                continue
            told.add((node, held))
            if committed is None:
                committed, self.committed_ns = held, event["rx_ns"]
            leads = event.get("as") == "leader"
            if not leads and held == committed:
                continue
            text = f"takes {self._sign(held)} for committed: high watermark {value}"
            text += self._backers(event)
            if held != committed:
                text += f" — though {self._sign(committed)} was"
            tone = "t-good" if held == committed else "t-bad"
            self._add(node, event, ("✓", tone, text), strong=True)

    def _backers(self, event: Event) -> str:
        acks = event.get("acks")
        if not isinstance(acks, list | tuple):
            return ""
        ends = [
            f"{self.scene.name(ack[0])} to {integer(ack[2])}"
            for ack in acks
            if isinstance(ack, list | tuple) and len(ack) > 2 and integer(ack[2]) is not None  # noqa: PLR2004
        ]
        return f", by what it knows of the voters' logs: {', '.join(ends)}" if ends else ""

    def _held(self, node: str, at: Event) -> Batch | None:
        """Tell what the node had at the offset when it told of an event."""
        held = None
        place = self.scene.place(node, at)
        for change in self.changes[node]:
            if self.scene.place(node, change.event) > place:
                break
            held = change.batch
        return held

    def _acknowledged(self) -> None:
        for node, event in self.scene.told(frozenset({"ack"})):
            last = integer(event.get("off"))
            held = self._held(node, event) if node in self.changes else None
            if last is None or held is None or not self.offset <= last <= held.last:
                continue
            span = self._op_of(event)
            what = f"its {clean(event.get('api', 'write'), limit=40)}"
            if span is not None:
                what = f"op {span.invocation.index}, {op_words(span)},"
            text = f"tells the client that {what} is done"
            high = integer(event.get("hwm"))
            early = high is not None and high <= last
            words = ("@", "t-bad" if early else "t-good", text + (EARLY if early else ""))
            op = None if span is None else span.invocation.index
            self._add(node, event, words, op=op, strong=True)

    def _op_of(self, ack: Event) -> Span | None:
        """The op whose answer this was: one of the finding's, if any fits."""
        found = [
            span
            for span in map(self.scene.by_index.get, self.finding.ops)
            if span is not None and any(event is ack for _, event in _acks(span, self.scene))
        ]
        return found[0] if found else None

    def _reads(self) -> None:
        """The reads that the finding names, and who had confirmed the leader that answered."""
        for index in self.finding.ops:
            span = self.scene.by_index.get(index)
            end = None if span is None else _answer(span)
            if span is None or end is None or end.index != index:
                continue
            node = clean(span.invocation.node or "", limit=60)
            link = self.scene.link(node, end.time_ns) if node else ""
            begin_ns, process = span.invocation.time_ns, clean(end.process, limit=40)
            text = f"is asked for op {span.invocation.index}, {_asked(span)}, by process {process}"
            note = Note("?", "t-op", text, begin_ns, node, span.invocation.index, link)
            self.builder.turns.append(Turn(begin_ns, node, 0, note))
            early = self.committed_ns is None or end.time_ns < self.committed_ns
            shown = (clean(end.key, limit=100), str(end.value)) in self._held_writes()
            text = f"op {index} is answered: {op_words(span)}"
            text += EARLY if shown and early else "" if shown else " — and not what is written here"
            note = Note("@", "t-bad", text, end.time_ns, node, index, link)
            self.builder.turns.append(Turn(end.time_ns, node, 1 << 40, note, strong=True))
            self._confirmations(begin_ns, end.time_ns)

    def _held_writes(self) -> set[tuple[str, str]]:
        """The writes that any version of the record holds."""
        out = set()
        for node in self.scene.nodes:
            for batch in self.scene.log(node):
                for at, record in enumerate(batch.records):
                    write = write_of_record(record)
                    where = integer(record.get("offset", batch.base + at))
                    if write is not None and where == self.offset:
                        out.add((write[0], str(write[1])))
        return out

    def _confirmations(self, begin_ns: int, end_ns: int) -> None:
        """Leaders that answered a read meanwhile, by how many they knew that they led."""
        for node, event in answered_reads(self.scene, begin_ns, end_ns)[:READS_MAX]:
            found = confirmation(event, node, self.scene)
            if found is None:
                continue
            have = listing([name for name, _ in found.since])
            enough = len(found.since) >= found.needed
            lacks = listing([name for name, _ in found.before])
            text = f"answers reads at high watermark {clean(event.get('off'), limit=20)}: "
            text += f"{have} confirmed that it leads" if have else "it asked no majority"
            text += f"; {lacks} did not" if lacks and not enough else ""
            self._add(node, event, ("R", "t-good" if enough else "t-bad", text), strong=not enough)

    def _visible(self) -> None:
        """The moment of the finding, when the story would end before it."""
        at, end_ns = self.finding.time_ns, self.builder.end_ns
        if at is not None and (end_ns is None or end_ns < at):
            note = Note("✗", "t-bad", "here it became visible", at)
            self.builder.turns.append(Turn(at, "", 0, note, strong=True))

    def _elections(self, end_ns: int) -> None:
        """The leader when it was written, and those that came after."""
        every = [
            (node, event)
            for node, event in self.scene.told(frozenset({"elected"}))
            if event["rx_ns"] <= end_ns
        ]
        told = [item for item in every if item[1]["rx_ns"] >= self.start_ns]
        before = [item for item in every if item[1]["rx_ns"] < self.start_ns]
        told += sorted(before, key=lambda item: int(item[1]["rx_ns"]))[-1:]
        for node, event in sorted(told, key=lambda item: int(item[1]["rx_ns"]))[:ELECTIONS_MAX]:
            start = integer(event.get("es"))
            came_after = event["rx_ns"] > self.start_ns
            short = came_after and start is not None and start <= self.offset
            lacks = " — without it" if short else ""
            ends = "" if start is None else f", with a log that ends at {start}{lacks}"
            text = f"is elected leader of epoch {clean(event.get('ep'), limit=20)}{ends}"
            self._add(node, event, ("▲", "t-leader", text), strong=bool(lacks))

    def _faults(self, end_ns: int) -> None:
        for fault in self.scene.faults_between(self.start_ns, end_ns)[:FAULTS_MAX]:
            at = fault.installed_ns or fault.begin_ns
            if at is None or at < self.start_ns:
                continue
            on = f" on {', '.join(fault.targets)}" if fault.targets else ""
            note = Note("!", "t-fault", f"fault: {fault.nemesis}{on}", at)
            self.builder.turns.append(Turn(at, "", 0, note))


def _asked(span: Span) -> str:
    key = "" if span.invocation.key is None else f" {clean(span.invocation.key, limit=60)}"
    return f"{clean(span.invocation.f, limit=40)}{key}"


def _at_most(value: object, limit: int) -> bool:
    number = integer(value)
    return number is not None and number <= limit
