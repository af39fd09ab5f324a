"""History files of any kind: JSON (lines or an array), Jepsen's EDN, Porcupine's logs and EDN.

``read_history`` finds the format by what is in the file, and returns the history together with
the conventions its format goes by. A file in which nothing can be read is an error, never an
empty history that would pass every check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

from harness.errors import HistoryFormatError, UsageError
from harness.history.formats import jepsen, jsonl, porcupine
from harness.history.formats.conventions import Conventions, LoadedHistory

__all__ = ["FORMATS", "Conventions", "LoadedHistory", "read_history"]

_READERS: dict[str, Callable[..., LoadedHistory]] = {
    "jsonl": jsonl.read,
    "edn": jepsen.read,
    "porcupine": porcupine.read,
}
FORMATS = ("auto", *_READERS)
_DETECT_LINES_MAX = 200  # a log may begin with lines of other loggers


def read_history(path: Path | str, format: str = "auto") -> LoadedHistory:  # noqa: A002
    """Read a history file of any known format.

    ``porcupine`` reads its etcd logs and its EDN key-value logs alike.

    Raises:
        UsageError: A format we do not know.
        HistoryFormatError: A file that cannot be opened, is not text, has a line that cannot be
            understood (with ``path:line``), or holds no op at all.
    """
    if format not in FORMATS:
        raise UsageError(f"no history format is called {format!r}: there are {', '.join(FORMATS)}")
    path = Path(path)
    try:
        name = _detect(path) if format in ("auto", "porcupine") else format
        with path.open(encoding="utf-8") as lines:
            loaded = _READERS[name](lines, source=str(path))
    except OSError as error:
        raise HistoryFormatError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise HistoryFormatError(
            f"{path}: not text: byte {error.start} is not UTF-8; a history is JSON lines, EDN or "
            f"a log"
        ) from error
    if not len(loaded.history):
        raise HistoryFormatError(
            f"{path}:1: no op found, read as {name}: is it a history, and of that format?"
        )
    return loaded


def _detect(path: Path) -> str:
    """Tell the format by the first line that says anything."""
    with path.open(encoding="utf-8") as lines:
        head = list(islice(lines, _DETECT_LINES_MAX))
    if any(porcupine.looks_like(line) for line in head):
        return "porcupine"
    first = _first(head)
    if _starts_json(first) or (first[:1] == "[" and _starts_json(_in_array(head))):
        return "jsonl"
    if first[:1] in ("{", "[", "(", "#", "^"):
        return "edn"
    raise HistoryFormatError(
        f"{path}:1: cannot tell the format of {first[:40]!r}: want JSON lines, EDN or a "
        f"porcupine log; name it with --format if it is one"
    )


def _first(lines: Iterable[str]) -> str:
    """The first line that is neither blank nor an EDN comment."""
    for line in lines:
        text = line.strip("\ufeff \t\r\n")
        if text and not text.startswith(";"):
            return text
    return ""


def _starts_json(text: str) -> bool:
    """Tell whether an object with its keys in quotes begins here."""
    return text.startswith("{") and text[1:].lstrip()[:1] == '"'


def _in_array(head: list[str]) -> str:
    """Tell what stands behind the bracket that opens the file."""
    return "".join(head).partition("[")[2].lstrip()
