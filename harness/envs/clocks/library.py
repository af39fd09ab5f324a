"""Libfaketime for a JVM: a copy of the host's that leaves waits on condition variables alone.

All waits of a JVM are such, on the steady clock. Libfaketime takes their deadlines for times of its
own wall clock, so that they end at once, or never when the rate is wrong. In the copy these
functions of its are hidden from the dynamic linker, and a JVM finds those of the C library. Only a
wait until a time of the wall clock then goes by the host's clock, as ``LockSupport.parkUntil``.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from harness.errors import EnvError

_HIDES: Final = b"pthread_cond_"
_MAGIC: Final = b"\x7fELF\x02\x01"  # 64 bits, the lowest byte first
_SECTIONS_AT: Final = 0x28, 0x3A  # in the header: where their table is; size of a row, how many
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_DYNAMIC_SYMBOLS: Final = 11  # SHT_DYNSYM
_OTHER_AT: Final = 5  # of a symbol: the byte with its visibility
_HIDDEN: Final = 2  # STV_HIDDEN


def without_waits(library: Path, copy: Path) -> Path:
    """Make the copy, unless it is there; returns it.

    Raises:
        EnvError: It is no library that can be changed so, or the copy cannot be written.
    """
    if copy.exists():
        return copy
    draft = copy.with_suffix(f".{os.getpid()}")
    try:
        draft.write_bytes(hide(library.read_bytes()))
        draft.replace(copy)
    except (OSError, ValueError, struct.error) as error:
        raise EnvError(f"cannot make a copy of {library} for JVMs: {error}") from error
    return copy


def hide(library: bytes) -> bytes:
    """The library with the functions hidden; raises ValueError, struct.error: it is none."""
    changed = bytearray(library)
    for at, name in defined(library):
        if name.startswith(_HIDES):
            changed[at + _OTHER_AT] |= _HIDDEN
    return bytes(changed)


def defined(library: bytes) -> Iterator[tuple[int, bytes]]:
    """The symbols that a library defines: where each is in it, and its name."""
    if not library.startswith(_MAGIC):
        raise ValueError("it is no ELF library of 64 bits, little-endian")
    (table,) = struct.unpack_from("<Q", library, _SECTIONS_AT[0])
    size, count = struct.unpack_from("<HH", library, _SECTIONS_AT[1])
    sections = [_SECTION.unpack_from(library, table + number * size) for number in range(count)]
    found = [section for section in sections if section[1] == _DYNAMIC_SYMBOLS]
    if not found:
        raise ValueError("it has no table of dynamic symbols")
    _, _, _, _, begin, length, names, *_ = found[0]
    strings = sections[names][4]
    for at in range(begin, begin + length, _SYMBOL.size):
        name, _, _, section, _, _ = _SYMBOL.unpack_from(library, at)
        if section:
            start = strings + name
            yield at, library[start : library.index(b"\0", start)]
