"""Triggers in words: ``before the 2nd disk change after `role -> leader` ``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from harness.moments.trigger import ANY, CHANGE, DURING, ROLES, Match, Trigger

_CHANGES: Final[Mapping[str, str]] = {
    "append": "append to",
    "pwrite": "write to",
    "truncate": "cut of",
    "fsync": "fsync of",
    "rename": "rename to",
    "unlink": "removal of",
    "fsync_dir": "fsync of the names in",
}
_ENDINGS: Final = {1: "st", 2: "nd", 3: "rd"}
_TEENS: Final = range(11, 14)


def told(trigger: Trigger) -> str:
    """Tell a trigger in words, to stand behind what is done: ``kill n1 ...``."""
    on, after = trigger.on, trigger.after
    words = [f"{'before' if on.t == CHANGE else 'at'} the {ordinal(trigger.nth)} {kind(on)}"]
    if after is not None:
        words.append(f"after {'the ' if after.t == CHANGE else ''}{kind(after)}")
    if trigger.role != ANY:
        words.append(f"on {_who(trigger.role)}")
    if trigger.during is not None:
        words.append(f"while {DURING[trigger.during]}")
    return " ".join(words)


def kind(match: Match) -> str:
    """Tell a kind of event: ``disk change``, ``fsync of log``, `` `role -> leader` ``."""
    rest = dict(match.fields)
    if match.t == CHANGE:
        op, file = rest.pop("op", None), rest.pop("file", None)
        what = _CHANGES.get(str(op), f"{op} of") if op is not None else "change of"
        text = "disk change" if op is None and file is None else f"{what} {file or 'a file'}"
    elif match.t == "role" and "to" in rest:
        text = f"`role -> {rest.pop('to')}`"
    else:
        text = f"`{match.t}`"
    return text + (f" ({', '.join(f'{k} {_plain(v)}' for k, v in rest.items())})" if rest else "")


def ordinal(number: int) -> str:
    """Tell which of a row: first, 2nd, 3rd, 4th, ..."""
    if number == 1:
        return "first"
    teen = number % 100 in _TEENS
    return f"{number}{'th' if teen else _ENDINGS.get(number % 10, 'th')}"


def _who(role: str) -> str:
    if role not in ROLES:
        return role
    return f"{'an' if role[0] in 'aeiou' else 'a'} {role}"


def _plain(value: Any) -> str:
    if value is None:
        return "none"
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)
