"""Defects in plain words: a title that names who, where and which, what should be, what was found.

An anomaly's message is one sentence with the values that matter. A rule knows one kind of sentence
and takes it apart; a sentence that no rule knows is its own title, and is what was found.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from reports.defects.rule import Defect, Rule, as_sentence, shortened
from reports.defects.safety import SAFETY
from reports.defects.service import SERVICE
from reports.text import clean, listing

_LABEL = re.compile(r" \(n\d+ seq \d+(?:, (?:dir [0-9a-f]+|n\d+ seq \d+))?\)")
_SEQ = re.compile(r"\bn(\d+) seq \d+\b")
_KEY = re.compile(r"^key '?(?P<key>[^:']{1,80})'?: ")
_SPAN = re.compile(r"\boffsets (?P<low>\d+)-(?P=low)\b")
_ANOMALY = re.compile(r"^(?P<name>[A-Za-z0-9-]+): no order explains this: ")
_MANY = 2
NAMED_MAX = 4  # ops of a cycle


def plainly(message: str) -> str:
    """A message without the sequence numbers of events, which say nothing to a person."""
    bare = _LABEL.sub("", message)
    return _SPAN.sub(r"offset \g<low>", _SEQ.sub(r"n\1", bare))


def defect(invariant: str, message: str, details: Mapping[str, Any], title: str = "") -> Defect:
    """Take a message apart.

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
    short = shortened(sentence)
    whole = as_sentence(sentence) if short != sentence else ""
    return Defect(as_sentence(short) or title, "", whole)


_GIVEN: Final = ("epoch", "offset", "hwm", "voter", "voted", "node", "committed")


def _is_plain(details: Mapping[str, Any], name: str) -> bool:
    return isinstance(details.get(name), str | int)


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


_RULES: Final[Mapping[str, tuple[Rule, ...]]] = {
    name: tuple(rule for rule in (*SAFETY, *SERVICE) if rule.invariant == name)
    for name in dict.fromkeys(rule.invariant for rule in (*SAFETY, *SERVICE))
}
