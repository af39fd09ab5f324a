"""A rule takes one kind of sentence apart: who, where and which, what should be, what was found."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

TITLE_MAX = 140  # characters of a title that no rule made
_CRC = re.compile(r" \(crc [0-9a-f]+\)")
_LIST = re.compile(r"\[(?P<items>[^\]]*)\]")

N: Final = r"(?:n\d+|\S+)"  # a node, or whatever stands there


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
        found = say(self.found) if self.found else as_sentence(sentence)
        title = _CRC.sub("", say(self.title)) if self.title else shortened(sentence)

        return Defect(as_sentence(title), say(self.expected), found)


def _filled(text: str, words: Mapping[str, str]) -> str:
    """The text with its places filled; what is put in is never looked at again."""

    def word(match: re.Match[str]) -> str:
        value = words.get(match[1], "?")
        return "none" if value == "[]" else value

    return re.sub(r"\{(#?\w+)\}", word, text)


def _length(value: str) -> int:
    listed = _LIST.fullmatch(value)
    return len([item for item in listed["items"].split(",") if item.strip()]) if listed else 0


def as_sentence(text: str) -> str:
    """Begin with a capital, but for names of nodes."""
    return text[:1].upper() + text[1:] if not re.match(r"n\d+\b", text) else text


def shortened(sentence: str) -> str:
    """The first clause of a long sentence."""
    if len(sentence) <= TITLE_MAX:
        return sentence
    cut = max(sentence.rfind(sign, 12, TITLE_MAX) for sign in (", ", "; ", ": "))
    return sentence[:cut] if cut > 0 else sentence[:TITLE_MAX] + "…"


def rule(invariant: str, pattern: str, title: str, expected: str, found: str = "") -> Rule:
    """Make the rule of sentences that match a pattern."""
    return Rule(invariant, re.compile(pattern), title, expected, found)
