"""Defects in plain words: a title that names who, where and which, what should be, what was found.

An anomaly's message is one sentence with the values that matter. A rule knows one kind of sentence
and takes it apart; a sentence that no rule knows is its own title, and is what was found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from reports.text import clean, listing

TITLE_MAX = 140  # characters of a title that no rule made
_LABEL = re.compile(r" \(n\d+ seq \d+(?:, (?:dir [0-9a-f]+|n\d+ seq \d+))?\)")
_SEQ = re.compile(r"\bn(\d+) seq \d+\b")
_CRC = re.compile(r" \(crc [0-9a-f]+\)")
_KEY = re.compile(r"^key '?(?P<key>[^:']{1,80})'?: ")
_LIST = re.compile(r"\[(?P<items>[^\]]*)\]")
_SPAN = re.compile(r"\boffsets (?P<low>\d+)-(?P=low)\b")
_ANOMALY = re.compile(r"^(?P<name>[A-Za-z0-9-]+): no order explains this: ")

N: Final = r"(?:n\d+|\S+)"  # a node, or whatever stands there
_MANY = 2
NAMED_MAX = 4  # ops of a cycle


@dataclass(frozen=True, slots=True)
class Defect:
    """An anomaly in words; ``expected`` is empty where only the promise itself says it."""

    title: str
    expected: str
    found: str


@dataclass(frozen=True, slots=True)
class Rule:
    """Sentences of one kind: what they look like, and the three texts made of their words.

    In the texts ``{name}`` is a group of the pattern, ``{#name}`` how long the list in it is.
    Without a title the sentence is its own, without ``found`` it is what was found.
    """

    invariant: str
    pattern: re.Pattern[str]
    title: str
    expected: str
    found: str = ""

    def told(self, sentence: str, given: Mapping[str, str]) -> Defect | None:
        """The defect when the sentence is of this kind."""
        match = self.pattern.search(sentence)
        if match is None:
            return None
        words = {**given, **{k: v or "" for k, v in match.groupdict().items()}}
        counts = {f"#{name}": str(_length(value)) for name, value in words.items()}
        say: Callable[[str], str] = lambda text: _filled(text, {**words, **counts})  # noqa: E731
        found = say(self.found) if self.found else _sentence(sentence)
        title = _CRC.sub("", say(self.title)) if self.title else _short(sentence)

        return Defect(_sentence(title), say(self.expected), found)


def _filled(text: str, words: Mapping[str, str]) -> str:
    """The text with its places filled; what is put in is never looked at again."""

    def word(match: re.Match[str]) -> str:
        value = words.get(match[1], "?")
        return "none" if value == "[]" else value

    return re.sub(r"\{(#?\w+)\}", word, text)


def _length(value: str) -> int:
    listed = _LIST.fullmatch(value)
    return len([item for item in listed["items"].split(",") if item.strip()]) if listed else 0


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] if not re.match(r"n\d+\b", text) else text


def plainly(message: str) -> str:
    """A message without the sequence numbers of events, which say nothing to a person."""
    bare = _LABEL.sub("", message)
    return _SPAN.sub(r"offset \g<low>", _SEQ.sub(r"n\1", bare))


def defect(invariant: str, message: str, details: Mapping[str, Any], title: str = "") -> Defect:
    """What a message says, taken apart.

    Args:
        invariant: The name in the catalogue.
        message: Cleaned.
        details: As the checker left them; foreign data.
        title: The invariant's plain name, for messages that no rule knows.
    """
    if (made := _contradiction(message, details)) is not None:
        return made
    sentence = plainly(message)
    given = {name: clean(details[name], limit=60) for name in _GIVEN if _is_plain(details, name)}
    for rule in _RULES.get(invariant, ()):
        if (made := rule.told(sentence, given)) is not None:
            return made
    short = _short(sentence)
    return Defect(_sentence(short) or title, "", _sentence(sentence) if short != sentence else "")


_GIVEN: Final = ("epoch", "offset", "hwm", "voter", "voted", "node")


def _is_plain(details: Mapping[str, Any], name: str) -> bool:
    return isinstance(details.get(name), str | int)


def _short(sentence: str) -> str:
    """The first clause of a long sentence."""
    if len(sentence) <= TITLE_MAX:
        return sentence
    cut = max(sentence.rfind(sign, 12, TITLE_MAX) for sign in (", ", "; ", ": "))
    return sentence[:cut] if cut > 0 else sentence[:TITLE_MAX] + "…"


# --------------------------------------------------------------------------- histories


def _contradiction(message: str, details: Mapping[str, Any]) -> Defect | None:
    """Ops of a history that cannot be put into an order: a cycle, or answers that fit nowhere."""
    cycle = _ANOMALY.search(message)
    if cycle is not None:
        return _cycle(cycle["name"], message[cycle.end() :], details)
    stuck = details.get("stuck")
    if not isinstance(stuck, Mapping):
        return None
    what, op = clean(stuck.get("what", "?"), limit=200), clean(stuck.get("op", "?"), limit=20)
    where = _KEY.match(message)
    key = "" if where is None else f" of key {where['key']}"
    core = "" if details.get("minimal") is not True else _others(details, stuck)
    possible, why = _could(details, stuck)
    title = f"{what} (op {op}){key} {'contradicts ' + core if core else 'cannot be linearized'}"
    expected = f"An answer that the ops before it explain: {possible}" if possible else ""
    return Defect(title, expected, f"{what} (op {op})" + (f": {why}" if why else ""))


def _others(details: Mapping[str, Any], stuck: Mapping[str, Any]) -> str:
    """The other ops of a minimal core, in words."""
    listed = details.get("ops")
    ops = [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []
    rest = [each for each in ops if each.get("op") != stuck.get("op")]
    told = [
        f"{clean(e.get('what', '?'), limit=60)} (op {clean(e.get('op'), limit=20)})" for e in rest
    ]
    if not told:
        return ""
    if len(told) <= _MANY:
        return " and ".join(told)
    return f"{told[0]}, {told[1]} and {len(told) - _MANY} more"


def _could(details: Mapping[str, Any], stuck: Mapping[str, Any]) -> tuple[str, str]:
    """The states that orders of the other ops end in, and why the stuck one does not fit there."""
    partials = details.get("partials")
    found = [p for p in partials if isinstance(p, Mapping)] if isinstance(partials, list) else []
    states = list(dict.fromkeys(clean(p.get("state", "?"), limit=120) for p in found))
    whys = [
        clean(item.get("why", ""), limit=200)
        for partial in found
        for item in _listed(partial.get("cannot_follow"))
        if item.get("op") == stuck.get("op")
    ]
    return " or ".join(states), whys[0] if whys else ""


def _listed(value: Any) -> Sequence[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _cycle(name: str, rest: str, details: Mapping[str, Any]) -> Defect:
    steps = _listed(details.get("cycle"))
    ops = list(dict.fromkeys(clean(step.get("from", "?"), limit=20) for step in steps))
    shown = listing(
        [*ops[:NAMED_MAX], *([f"{len(ops) - NAMED_MAX} more"] * (len(ops) > NAMED_MAX))]
    )
    clause, _, _ = rest.partition("; ")
    return Defect(
        f"Ops {shown} contradict each other: {clause}",
        f"One order of the ops {shown} that explains all answers",
        f"Each came before the next, and the last before the first ({name}): {rest}",
    )


# --------------------------------------------------------------------------- the rules


def _rule(invariant: str, pattern: str, title: str, expected: str, found: str = "") -> Rule:
    return Rule(invariant, re.compile(pattern), title, expected, found)


_ALL: Final = (
    _rule(
        "S1",
        rf"epoch (?P<epoch>\S+) has two leaders: (?P<one>{N})(?: names (?P<n1>{N}))?"
        rf" and (?P<other>{N})",
        "{one} and {other} both led epoch {epoch}",
        "One leader in epoch {epoch}",
    ),
    _rule(
        "S2",
        rf"(?P<node>{N}) voted twice in epoch (?P<epoch>\S+): for (?P<one>{N}) and for"
        rf" (?P<two>{N})",
        "{node} voted twice in epoch {epoch}: for {one} and for {two}",
        "{node} gives one vote in epoch {epoch}, and {one} has it",
        "{node} voted for {one}, and then for {two}",
    ),
    _rule(
        "S3",
        rf"(?P<node>{N}) forgot its (?P<what>.+?) at a restart: it had written (?P<written>.+),"
        r" and started from (?P<found>.+)",
        "{node} forgot its {what} at a restart, in epoch {epoch}",
        "{node} starts from what it had written: {written}",
        "{node} started from {found}",
    ),
    _rule(
        "S3",
        rf"(?P<node>{N}) forgot in epoch (?P<epoch>\S+) that it had voted for (?P<cand>{N})",
        "{node} forgot in epoch {epoch} that it had voted for {cand}",
        "{node} keeps its vote for {cand} until epoch {epoch} is over",
        "{node} wrote down that it has not voted in epoch {epoch}",
    ),
    _rule(
        "S3",
        rf"(?P<node>{N}) (?P<did>voted for {N}|asked for votes) in epoch (?P<epoch>\S+) before"
        r" that vote was on its disk; the disk had (?P<found>.+)",
        "{node} {did} in epoch {epoch} before its vote was on its disk",
        "The disk of {node} has the vote of epoch {epoch} first",
        "The disk had {found}",
    ),
    _rule(
        "S4",
        rf"the epoch of (?P<node>{N}) fell from (?P<high>\d+) to (?P<low>\d+)",
        "{node} went back from epoch {high} to epoch {low}",
        "{node} stays in epoch {high} or goes to a later one",
    ),
    _rule(
        "S5",
        rf"(?P<node>{N}) voted for (?P<cand>{N}) in epoch (?P<epoch>\S+), whose log ends at"
        r" (?P<end>\d+) of epoch (?P<of>\d+), its own at (?P<own>\d+) of epoch (?P<ownof>\d+)",
        "{node} voted in epoch {epoch} for {cand}, whose log is behind its own",
        "{node} refuses {cand}: it votes only for logs that end at {own} of epoch {ownof} or later",
        "{node} granted the vote; the log of {cand} ends at {end} of epoch {of}",
    ),
    _rule(
        "S6",
        rf"(?P<node>{N}) won epoch (?P<epoch>\S+) with the votes of (?P<got>\[.*?\]) of the voters"
        r" (?P<all>\[.*?\]), and (?P<need>\d+) needed",
        "{node} won epoch {epoch} with {#got} of {#all} votes",
        "{need} votes of the voters {all}",
        "{#got} votes: {got}",
    ),
    _rule(
        "S6",
        rf"(?P<node>{N}) counted the vote of (?P<voter>{N}) in epoch (?P<epoch>\S+), which",
        "{node} won epoch {epoch} with a vote that {voter} never gave",
        "{node} counts the votes that it was given in epoch {epoch}",
        "{node} counted {voter}, which gave it no vote in epoch {epoch}",
    ),
    _rule(
        "S7",
        r"two contents at offset (?P<offset>\d+) of epoch (?P<epoch>\d+): (?P<one>.*),"
        r" (?P<other>(?:the|n\d).*)",
        "Two different records at offset {offset} of epoch {epoch}",
        "One record at offset {offset} of epoch {epoch}, the same in all logs",
    ),
    _rule(
        "S8",
        r"logs differ below (?P<batch>offsets? \S+ of epoch \d+(?: \(crc \w+\))?): (?:on"
        r" )?(?P<one>.*?) it follows"
        r" (?P<a>.*?), (?:on )?(?P<other>.*?) it follows (?P<b>.*)",
        "The logs of {one} and {other} differ below {batch}",
        "What is the same at {batch} is the same below it",
        "{one} has {a} there, {other} has {b}",
    ),
    _rule(
        "S9",
        r"offset (?P<offset>\d+) was committed as (?P<one>.*?) by (?P<by>\S+), but (?P<who>.*?)"
        r" (?P<how>holds|has) (?P<other>.*?)(?: there)?$",
        "Offset {offset} was committed by {by}, and {who} {how} something else there",
        "{one}, as {by} committed it, in every log",
        "{who} {how} {other}",
    ),
    _rule(
        "S10",
        rf"(?P<node>{N}) lost the committed (?P<batch>.*?) by a (?P<how>.*) to (?P<to>\d+)",
        "{node} cut committed {batch} off its log by a {how} to {to}",
        "{node} keeps {batch}: it is committed",
        "The log of {node} ends at {to}",
    ),
    _rule(
        "S10",
        rf"(?P<node>{N}) truncated its log to (?P<to>\d+), below its high watermark (?P<hwm>\d+)",
        "{node} cut its log to {to}, below its high watermark {hwm}",
        "{node} keeps all below {hwm}: it is committed",
        "The log of {node} ends at {to}",
    ),
    _rule(
        "S11",
        rf"(?P<node>{N}) won epoch (?P<epoch>\S+) without the committed (?P<batch>.*?) \(.*\); it"
        r" has (?P<has>.*)",
        "{node} leads epoch {epoch} without committed {batch}",
        "A leader of epoch {epoch} has {batch}: it is committed",
        "{node} has {has}",
    ),
    _rule(
        "S11",
        rf"(?P<node>{N}) won epoch (?P<epoch>\S+) without the committed (?P<batch>.*?); it"
        r" has (?P<has>.*)",
        "{node} leads epoch {epoch} without committed {batch}",
        "A leader of epoch {epoch} has {batch}: it is committed",
        "{node} has {has}",
    ),
    _rule(
        "S12",
        rf"(?P<node>{N}) wrote a batch of epoch (?P<epoch>\d+) at offset (?P<offset>\d+) without",
        "{node} wrote offset {offset} of epoch {epoch}, which it did not lead",
        "Only the leader of epoch {epoch} writes records of it",
    ),
    _rule(
        "S12",
        r"the record at offset (?P<offset>\d+) in the log of (?P<node>\S+) has (?P<field>\S+)"
        r" (?P<got>.*?), not (?P<want>.*?): (?P<who>\S+) was elected for epoch (?P<epoch>\d+)",
        "The first record of epoch {epoch}, offset {offset} in the log of {node}, has"
        " wrong {field}",
        "{field} {want}, as {who} was elected",
        "{field} {got}",
    ),
    _rule(
        "S12",
        rf"(?P<node>{N}) (?P<did>cut its log to \d+|installed a snapshot) while it led epoch"
        r" (?P<epoch>\d+)",
        "{node} {did} while it led epoch {epoch}",
        "{node}, the leader of epoch {epoch}, only appends to its log",
    ),
    _rule(
        "S13",
        rf"(?P<node>{N}) raised the high watermark of epoch (?P<epoch>\S+) to (?P<hwm>\d+) with"
        r" (?P<sure>\d+) of (?P<all>\d+) voters holding those records on disk, and (?P<need>\d+)"
        r" needed; flushed: (?P<told>.*)",
        "{node} committed up to offset {hwm} in epoch {epoch} with {sure} of {all} voters",
        "{need} of {all} voters have all below {hwm} on their disks",
        "{sure} had. Flushed: {told}",
    ),
    _rule(
        "S14",
        rf"(?P<node>{N}) exposed high watermark (?P<hwm>\d+) in epoch (?P<epoch>\S+), which it"
        r" began at offset (?P<start>\d+)(?:; the last record below it is of epoch (?P<last>\d+))?",
        "{node} committed up to {hwm} in epoch {epoch} before a record of that epoch was committed",
        "A high watermark above {start}, where epoch {epoch} begins, or none",
        "{node} exposed {hwm}; the last record below it is of epoch {last}",
    ),
    _rule(
        "S15",
        rf"the high watermark of (?P<node>{N}) fell from (?P<high>\d+) to (?P<low>\d+)",
        "The high watermark of {node} fell from {high} to {low}",
        "{high} or more",
        "{low}",
    ),
    _rule(
        "S16",
        rf"(?P<node>{N}) fetched at offset (?P<offset>\d+) with only (?P<flushed>\d+) on its disk",
        "{node} fetched at offset {offset} with only {flushed} on its disk",
        "{node} fetches at {flushed}, or has all below {offset} on its disk first",
        "{node} asked for {offset}, and a leader counts that as stored up to {offset}",
    ),
    _rule(
        "S17",
        rf"(?P<node>{N}) acknowledged offset (?P<offset>\d+) at high watermark (?P<said>\S+);"
        r" the highest it had exposed was (?P<hwm>\S+)",
        "{node} acknowledged offset {offset} before it was committed",
        "{node} waits for a high watermark above {offset}",
        "{node} answered at high watermark {said}",
    ),
    _rule(
        "S17",
        r"acknowledged (?P<what>.*?) \(op (?P<op>\d+)\) is not in the committed log",
        "The acknowledged {what} (op {op}) is lost",
        "{what} is in the committed log",
        "No record of it in the committed log",
    ),
    _rule(
        "S18",
        r"(?P<what>.*) is committed at offset (?P<offset>\d+) .*and no client ever asked for it",
        "Nobody asked for {what}, and it is committed at offset {offset}",
        "Every committed write was asked for by a client",
    ),
    _rule(
        "S19",
        r"topic (?P<topic>.*) was created in the batch (?P<batch>\S+) without a partition",
        "Topic {topic} was created in batch {batch} without a partition",
        "Topic {topic} and its partitions in one batch",
    ),
    _rule(
        "S20",
        rf"(?P<node>{N}) applied records up to (?P<end>\d+) at high watermark (?P<hwm>\S+)",
        "{node} applied records up to {end}, which were not committed",
        "{node} applies what lies below its high watermark {hwm}",
    ),
    _rule(
        "S20",
        rf"(?P<node>{N}) applied records from (?P<begin>\d+) to (?P<end>\d+), but (?P<had>.*)",
        "{node} applied offsets {begin} to {end} upon a state of another offset",
        "{node} has the state of all below {begin} when it applies offset {begin}",
        "On {node} {had}",
    ),
    _rule(
        "S21",
        rf"the controller of (?P<node>{N}) became active in epoch (?P<epoch>\S+), which began at"
        r" offset (?P<start>\d+), having applied (?P<applied>\d+)",
        "The controller of {node} became active in epoch {epoch} before it had caught up",
        "It has applied offset {start}, where epoch {epoch} begins, and all before",
        "It had applied what lies below {applied}",
    ),
    _rule(
        "S21",
        rf"the controller of (?P<node>{N}) became active in epoch (?P<epoch>\S+), which \S+ does",
        "The controller of {node} became active in epoch {epoch}, which {node} does not lead",
        "Only the leader of epoch {epoch} has the active controller",
    ),
    _rule(
        "S21",
        rf"the controller of (?P<node>{N}) has renounced epoch (?P<epoch>\S+), and goes by"
        r" (?P<kept>\d+) changes",
        "The controller of {node} gave up epoch {epoch} and kept {kept} uncommitted changes",
        "It forgets what was not committed in epoch {epoch}",
        "It still goes by {kept} changes that were never committed",
    ),
    _rule(
        "S22",
        rf"snapshot (?P<id>\S+) of (?P<node>{N}) names the voters (?P<got>\[.*?\]), but"
        r" (?P<want>\[.*?\]) were in force",
        "Snapshot {id} of {node} names the wrong voters",
        "The voters at its end: {want}",
        "{got}",
    ),
    _rule(
        "S23",
        rf"the log of (?P<node>{N}) begins at (?P<start>\d+) without a snapshot that ends there;"
        r" its snapshots: (?P<snaps>.*)",
        "The log of {node} begins at {start}, and no snapshot has what was before",
        "A snapshot of {node} that ends at {start}",
        "Snapshots of {node}: {snaps}",
    ),
    _rule(
        "S23",
        r"the final log of (?P<node>\S+) begins at (?P<start>\d+), and no snapshot",
        "The log of {node} begins at {start}, and no snapshot has what was before",
        "A snapshot on the disk of {node} that ends at {start}",
        "No snapshot there ends at {start}",
    ),
    _rule(
        "S23",
        r"snapshot (?P<id>\S+) on (?P<node>\S+)'s disk is not whole: (?P<why>.*)",
        "Snapshot {id} on the disk of {node} is not whole",
        "A snapshot is whole, or is not there under its name",
        "{why}",
    ),
    _rule(
        "S24",
        rf"(?P<node>{N}) installed a snapshot that ends at (?P<end>\d+), but went on at"
        rf" (?P<at>\d+)",
        "{node} installed a snapshot that ends at {end} and went on at {at}",
        "{node} goes on at {end}, where the snapshot ends",
        "{node} went on at {at}, with what its log had before",
    ),
    _rule(
        "S25",
        rf"(?P<node>{N}) had flushed its log up to (?P<flushed>\d+), and found (?P<batch>.*?)"
        r" missing at a restart: its log ends at (?P<end>\d+)",
        "{node} lost flushed {batch} at a restart",
        "The log of {node} ends at {flushed} or later: that was on its disk",
        "Its log ends at {end}",
    ),
    _rule(
        "S26",
        rf"(?P<node>{N}) leads epoch (?P<epoch>\S+) again after",
        "{node} led epoch {epoch} again after a restart",
        "{node} gives up epoch {epoch} when it restarts, and needs a later one to lead",
    ),
    _rule(
        "S28",
        rf"(?P<node>{N}) goes by the voters (?P<got>\[.*?\]), but the newest in its log are"
        r" (?P<want>\[.*?\]), of offset (?P<offset>\S+)",
        "{node} goes by the voters {got}; its log says {want}",
        "The newest voters in its log: {want}",
        "{got}",
    ),
    _rule(
        "S28",
        rf"(?P<node>{N}) went by the voters of offset (?P<offset>\d+) only when its high watermark"
        r" was (?P<hwm>\d+)",
        "{node} went by the voters of offset {offset} only when they were committed",
        "{node} goes by them as soon as they are in its log",
        "It did so at high watermark {hwm}",
    ),
    _rule(
        "S29",
        rf"(?P<node>{N}) counted (?P<who>\[.*?\]) as those that keep it leader, but (?P<why>.*)",
        "{node} counted {who} as the voters that keep it leader, and had no majority",
        "{node} counts voters that fetch from it, by id and disk",
        "But {why}",
    ),
    _rule(
        "S31",
        rf"(?P<node>{N}) in epoch (?P<epoch>\S+) accepted a (?P<api>\S+) of epoch (?P<asked>\S+)"
        r"(?P<other> of another cluster)?",
        "{node} accepted a {api} of epoch {asked}{other}",
        "{node} in epoch {epoch} refuses it",
    ),
    _rule(
        "S31",
        rf"(?P<node>{N}), the leader of epoch (?P<epoch>\S+), refused a (?P<api>\S+) with"
        r" (?P<code>\S+)",
        "{node} refused a {api} with {code} while it led epoch {epoch}",
        "{node} answers the {api}: it is the leader of epoch {epoch}",
    ),
    _rule(
        "S31",
        rf"(?P<node>{N}) went from (?P<a>\S+) in epoch (?P<e>\S+) to (?P<b>\S+) in epoch"
        r" (?P<epoch>\S+) for a (?P<api>\S+), which (?P<why>.*)",
        "{node} went to epoch {epoch} for a {api}",
        "{node} stays in epoch {e}: a {api} {why}",
        "{node} became {b} in epoch {epoch}",
    ),
    _rule(
        "S32",
        rf"(?P<node>{N}) granted (?P<cand>{N}) a pre-vote while it followed its leader",
        "{node} granted {cand} a pre-vote in epoch {epoch} while it heard from its leader",
        "{node} refuses pre-votes for as long as it hears from its leader",
        "{node} granted it",
    ),
    _rule(
        "S33",
        rf"(?P<node>{N}) became (?P<role>\S+) in epoch (?P<epoch>\S+), but the voters in"
        rf" its log are"
        r" (?P<voters>.*)",
        "{node} became {role} in epoch {epoch}, and is no voter",
        "{node} never stands for election: the voters are {voters}",
        "{node} became {role}",
    ),
    _rule(
        "S34",
        rf"(?P<node>{N}) answered a read that was asked for after its event \S+ of the voters"
        r" (?P<all>\[.*?\]) only (?P<got>\[.*?\]) have fetched since, and (?P<need>\d+) others",
        "{node} answered a read in epoch {epoch} without asking a majority whether it still leads",
        "{need} other of the voters {all} confirm {node} after the read came",
        "Those that did: {got}",
    ),
    _rule(
        "S34",
        r"(?P<f>\S+) of (?P<key>\S+) \(op (?P<op>\d+)\) returned (?P<value>.*?)"
        r"(?: \(offset (?P<offset>\d+)\) (?P<ms>\S+) ms)? before that was committed",
        "{f} of {key} at {node} (op {op}) returned {value} before that was committed",
        "The last committed value of {key}",
        "{value}, not yet committed",
    ),
    _rule(
        "S34",
        rf"(?P<node>{N}) told of epoch (?P<epoch>\S+) \(op (?P<op>\d+)\) high watermark"
        r" (?P<got>\S+): it was (?P<low>\S+) to (?P=low)$",
        "{node} told high watermark {got} of epoch {epoch} (op {op}); it was {low}",
        "High watermark {low}",
        "High watermark {got}",
    ),
    _rule(
        "S34",
        rf"(?P<node>{N}) told of epoch (?P<epoch>\S+) \(op (?P<op>\d+)\) high watermark"
        r" (?P<got>\S+): it was (?P<low>\S+) to (?P<high>\S+)",
        "{node} told high watermark {got} of epoch {epoch} (op {op}); it was {low} to {high}",
        "High watermark {low} to {high}",
        "High watermark {got}",
    ),
    _rule(
        "C1",
        r"broker (?P<broker>\S+) is registered at offset (?P<offset>\d+) with epoch (?P<epoch>\S+),"
        r" before it had (?P<old>\S+)",
        "Broker {broker} got epoch {epoch} at offset {offset} though it had {old}",
        "The same process keeps broker epoch {old}",
        "Epoch {epoch}",
    ),
    _rule(
        "C2",
        r"broker (?P<broker>\S+), (?P<state>[^,]+), leads or is new in sync: partition"
        r" (?P<partition>\S+) after offset (?P<offset>\d+)",
        "Broker {broker}, {state}, leads or came in sync in partition {partition} at"
        " offset {offset}",
        "No broker that is {state} leads or joins the ISR",
    ),
    _rule(
        "C5",
        r"the change of partition (?P<partition>\S+) by op (?P<op>\d+) (?P<what>.*)",
        "The change of partition {partition} by op {op} was granted, and is out of date",
        "The change is refused: it goes by something that has changed since",
        "It {what}",
    ),
    _rule(
        "C8",
        rf"the image of (?P<node>{N}) at offset (?P<offset>\d+) is (?P<got>\w+), but the committed"
        r" log folds to (?P<want>\w+)",
        "The image of {node} at offset {offset} is not what the log says",
        "State {want}, to which the committed log folds",
        "State {got} on {node}",
    ),
    _rule(
        "C8",
        rf"local read of (?P<key>\S+) at (?P<node>{N}) \(op (?P<op>\d+)\) went back to"
        r" (?P<now>\S+) \(offset (?P<off>\S+)\) after op (?P<by>\d+) had returned (?P<was>\S+)"
        r" \(offset (?P<high>\S+)\)",
        "Local reads of {key} at {node} went back from offset {high} to offset {off} (op {op})",
        "{was} of offset {high}, which op {by} had returned, or something newer",
        "{now}, of offset {off}",
    ),
    _rule(
        "C10",
        rf"(?P<node>{N}) published an image of offset (?P<offset>\d+); the high watermark it knew"
        r" was (?P<hwm>.*)",
        "{node} published its image at offset {offset} before it had caught up",
        "{node} publishes nothing before it has reached the high watermark it was told",
        "It knew high watermark {hwm}",
    ),
    _rule(
        "C11",
        r"producer ids (?P<low>\d+) to (?P<high>\d+) were given away twice, by ops (?P<a>\d+) and"
        r" (?P<b>\d+)",
        "Producer ids {low} to {high} were given away twice, to ops {a} and {b}",
        "Each block of producer ids goes to one broker, once",
    ),
    _rule(
        "C12",
        r"broker (?P<broker>\S+) \(op (?P<op>\d+)\) was silent after that, and not fenced for"
        r" (?P<for>\S+) s in which a controller worked; its session is (?P<session>\S+) s",
        "Broker {broker} was silent for {for} s (after op {op}) and not fenced",
        "It is fenced after a session of {session} s",
        "Not fenced after {for} s",
    ),
    _rule(
        "C12",
        r"broker (?P<broker>\S+) \(op (?P<op>\d+)\) was heard of, and was fenced \(offset"
        r" (?P<offset>\d+)\) (?P<after>\S+) s after that was sent; its session is (?P<session>\S+)"
        r" s",
        "Broker {broker} was fenced at offset {offset}, {after} s after a heartbeat (op {op})",
        "Not before a session of {session} s without a heartbeat",
        "Fenced after {after} s",
    ),
    _rule(
        "L2",
        r"(?P<node>\S+) leads and has committed nothing in (?P<s>\S+) s of peace",
        "{node} leads and committed nothing in {s} s of peace",
        "The high watermark rises as soon as no fault is in force",
    ),
    _rule(
        "L3",
        r"(?P<node>\S+) became (?P<role>\S+) in epoch (?P<epoch>\S+) \((?P<why>.*)\) although",
        "{node} became {role} in epoch {epoch} though nothing was wrong any more",
        "The leader of epoch {epoch} stays",
        "{why}",
    ),
    _rule(
        "L4",
        rf"(?P<node>{N}) still leads epoch (?P<epoch>\S+), though no majority of the voters"
        r" (?P<all>\[.*?\]) has fetched from it for (?P<s>\S+) s",
        "{node} still leads epoch {epoch} after {s} s without a majority",
        "{node} steps down when no majority of {all} fetches from it",
    ),
    _rule(
        "L8",
        r"(?P<node>\S+) ended at high watermark (?P<got>\S+), but (?P<want>\d+) was committed by"
        r" (?P<by>\S+), (?P<s>\S+) s before the end",
        "{node} ended at high watermark {got} of {want}",
        "High watermark {want}, as {by} had committed {s} s before the end",
        "High watermark {got}",
    ),
    _rule(
        "L8",
        r"(?P<s>\d+) ms after the last fault was healed not all have what (?P<by>\S+) has"
        r" committed,"
        r" (?P<want>\d+): (?P<far>.*)",
        "Not all nodes caught up with {by}, which had committed up to {want}: {far}",
        "All nodes reach high watermark {want} once no fault is in force",
        "{s} ms after the last fault: {far}",
    ),
    _rule(
        "L8",
        r"(?P<node>\S+) did not hear in (?P<s>\S+) s of peace that (?P<by>\S+) had committed"
        r" (?P<want>\d+)",
        "{node} did not hear within {s} s that {by} had committed up to {want}",
        "{node} hears of high watermark {want} within {s} s",
    ),
    _rule(
        "L9",
        r"voters stood (?P<n>\d+) times in a row and nobody won, .*?\((?P<told>.*)\)",
        "{n} elections in a row, and nobody won",
        "One of the voters wins soon when a majority is up",
        "Who stood: {told}",
    ),
    _rule(
        "L9",
        rf"(?P<node>{N}) put off its election from (?P<a>\S+) to (?P<b>\S+) ms for a (?P<kind>.*?)"
        rf" of (?P<cand>{N}) in epoch (?P<epoch>\S+)",
        "{node} put off its election for a {kind} of {cand} in epoch {epoch}, which it refused",
        "An election at {a} ms: what is refused puts off nothing",
        "An election at {b} ms",
    ),
    _rule(
        "L9",
        rf"(?P<node>{N}) stands (?P<waits>\S+) ms after the end of epoch (?P<epoch>\S+), and should"
        r" after (?P<right>\S+) ms: the order is (?P<order>.*)",
        "{node} stood for election {waits} ms after the end of epoch {epoch}, out of turn",
        "After {right} ms: the order is {order}",
        "After {waits} ms",
    ),
    _rule(
        "L1",
        r"(?P<s>\d+) ms after the last fault was healed nobody leads: (?P<roles>.*)",
        "Nobody leads, {s} ms after the last fault was healed",
        "One of the voters leads once no fault is in force",
        "{roles}",
    ),
    _rule(
        "L2",
        r"(?P<s>\d+) ms after the last fault was healed (?P<node>\S+) leads and does not get on:"
        r" (?P<told>.*)",
        "{node} leads and does not get on: {told}",
        "{node} commits and applies new records once no fault is in force",
        "{s} ms after the last fault: {told}",
    ),
    _rule(
        "L11",
        r"(?P<node>\S+) has (?P<n>\d+) batches after its newest snapshot, at (?P<at>\S+);"
        r" one is due"
        r" after (?P<due>\S+) bytes",
        "{node} made no snapshot for {n} batches, from offset {at} on",
        "A snapshot after {due} bytes",
    ),
    _rule(
        "L10",
        r"(?P<node>\S+) wants to stop and was told to wait for more than (?P<s>\S+) s",
        "{node} wanted to stop and was not let go for {s} s",
        "The controller lets {node} go when it has all it needs",
    ),
    _rule("L12", r"in \S+ s of peace", "", "A few events a second when nothing happens"),
    _rule(
        "S27",
        rf"(?P<leader>{N}) made (?P<node>{N}) a voter at offset (?P<offset>\d+), which had not"
        r" fetched to its log end in epoch (?P<epoch>\S+)",
        "{leader} made {node} a voter at offset {offset} before it had caught up",
        "{node} has fetched to the log end of {leader} in epoch {epoch} first",
        "{node} had not",
    ),
    _rule(
        "C12",
        rf"the controller (?P<node>{N}) fenced broker (?P<broker>{N}) (?P<ms>\d+) ms after"
        r" (?P<since>.*), when its session of (?P<session>\d+) ms had not begun",
        "{node} fenced broker {broker} {ms} ms after a heartbeat",
        "Not before {session} ms without a heartbeat",
        "Fenced after {ms} ms",
    ),
    _rule(
        "crash",
        r"(?P<node>\S+) printed the sign of a crash, (?P<kind>.*?), in line"
        r" (?P<line>\d+): (?P<text>.*)",
        "{node} crashed: {text}",
        "{node} goes on, or stops with a reason",
        "A {kind} in line {line} of its log: {text}",
    ),
    _rule(
        "L12",
        r"(?P<node>\S+) sent the same (?P<what>\S+) of epoch (?P<epoch>\S+) over (?P<n>\d+) times",
        "{node} sent the same {what} of epoch {epoch} over {n} times in a second",
        "{node} waits between tries",
    ),
    _rule(
        "L13",
        rf"(?P<node>{N}) accepted a Fetch of (?P<by>{N}) at offset (?P<offset>\d+), and"
        rf" (?P<s>\S+) s"
        r" later",
        "{node} never answered a Fetch of {by} at offset {offset}",
        "{node} answers it, if only that it has no more",
        "After {s} s {by} still waited",
    ),
)

_RULES: Final[Mapping[str, tuple[Rule, ...]]] = {
    name: tuple(rule for rule in _ALL if rule.invariant == name)
    for name in dict.fromkeys(rule.invariant for rule in _ALL)
}
