"""The kernel's FUSE protocol as bytes: requests decoded, answers encoded; no file is touched here.

Layouts are those of protocol 7.31 (Linux 5.2, 2019), which every later kernel still speaks:
``include/uapi/linux/fuse.h``. Times of attributes are ns since 1970.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Final

MAJOR, MINOR = 7, 31
ROOT: Final = 1  # the node of the root
REQUEST_BYTES_MAX: Final = (128 << 10) + (64 << 10)  # of a write, with room for its header
_WRITE_BYTES_MAX: Final = 128 << 10
_BACKGROUND_MAX: Final = 16
_ASYNC_READ, _BIG_WRITES = 1 << 0, 1 << 5
_FOREVER_S: Final = 3600  # nobody else changes the files while they are mounted
_INVAL_INODE: Final = 2
_BLOCK_BYTES: Final = 4096
_SECTOR_BYTES: Final = 512
_NS: Final = 10**9
NOW: Final = -1  # in the place of a time

_IN: Final = Struct("<IIQQIIII")  # len, opcode, unique, node, uid, gid, pid, padding
_OUT: Final = Struct("<IiQ")
_ATTR: Final = Struct("<QQQQQQIIIIIIIIII")
_ENTRY: Final = Struct("<QQQQII")
_ATTR_HEAD: Final = Struct("<QII")
_INIT_IN: Final = Struct("<IIII")
_INIT_OUT: Final = Struct("<IIIIHHIIHHI28x")
_OPENED: Final = Struct("<QIi")
_DIRENT: Final = Struct("<QQII")
_STATFS: Final = Struct("<QQQQQIIII24x")
_WRITTEN: Final = Struct("<II")
_INVAL: Final = Struct("<Qqq")
_SETATTR: Final = Struct("<IIQQQQQQIIIIIIII")
_RW: Final = Struct("<QQIIQII")
_HANDLE: Final = Struct("<QII")
_ONE: Final = Struct("<Q")
_TWO: Final = Struct("<II")
_FORGET: Final = Struct("<QQ")
_CREATE: Final = Struct("<IIII")
_RENAME2: Final = Struct("<QII")


class Op(IntEnum):
    """The kernel's requests that are answered with more than ENOSYS."""

    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    SETATTR = 4
    MKNOD = 8
    MKDIR = 9
    UNLINK = 10
    RMDIR = 11
    RENAME = 12
    OPEN = 14
    READ = 15
    WRITE = 16
    STATFS = 17
    RELEASE = 18
    FSYNC = 20
    INIT = 26
    OPENDIR = 27
    READDIR = 28
    RELEASEDIR = 29
    FSYNCDIR = 30
    CREATE = 35
    INTERRUPT = 36
    DESTROY = 38
    BATCH_FORGET = 42
    RENAME2 = 45


SILENT: Final = frozenset({Op.FORGET, Op.BATCH_FORGET, Op.INTERRUPT})  # want no answer


@dataclass(frozen=True, slots=True)
class Request:
    """One request; ``pid`` is of the thread that waits for it, 0 when the kernel itself asks."""

    opcode: int
    unique: int
    node: int
    pid: int
    body: memoryview

    @property
    def name(self) -> str:
        """The body as a file name."""
        return self.names(0)[0]

    def names(self, begin: int) -> list[str]:
        """The file names from a place in the body on; each ends with a zero byte."""
        return [os.fsdecode(name) for name in bytes(self.body[begin:]).split(b"\0")[:-1]]


@dataclass(frozen=True, slots=True)
class SetAttr:
    """The attributes to change; None: stays as it is."""

    handle: int | None
    size: int | None
    mode: int | None
    owner: tuple[int, int] | None  # -1: stays
    times_ns: tuple[int | None, int | None]  # accessed, modified; NOW is possible


@dataclass(frozen=True, slots=True)
class Transfer:
    """A read or a write; ``data`` is empty for a read."""

    handle: int
    offset: int
    size: int
    data: memoryview


def decode(data: bytes) -> Request:
    """A request as it was read from the device; raises ValueError when it is none."""
    if len(data) < _IN.size:
        raise ValueError(f"a FUSE request of {len(data)} bytes: want {_IN.size} at least")
    length, opcode, unique, node, _uid, _gid, pid, _ = _IN.unpack_from(data)
    if length != len(data):
        raise ValueError(f"a FUSE request of {len(data)} bytes says that it has {length}")
    return Request(opcode, unique, node, pid, memoryview(data)[_IN.size :])


# --------------------------------------------------------------------------- bodies of requests


def init_version(request: Request) -> tuple[int, int]:
    """INIT: the kernel's protocol."""
    major, minor, _, _ = _INIT_IN.unpack_from(request.body)
    return major, minor


def setattr_of(request: Request) -> SetAttr:
    """SETATTR."""
    (valid, _, handle, size, _, atime, mtime, _, atime_ns, mtime_ns, _, mode, _, uid, gid, _) = (
        _SETATTR.unpack_from(request.body)
    )

    def asked(bit: int) -> bool:
        return bool(valid & 1 << bit)

    atime_at = NOW if asked(7) else atime * _NS + atime_ns
    mtime_at = NOW if asked(8) else mtime * _NS + mtime_ns
    return SetAttr(
        handle=handle if asked(6) else None,
        size=size if asked(3) else None,
        mode=mode if asked(0) else None,
        owner=(uid if asked(1) else -1, gid if asked(2) else -1) if asked(1) or asked(2) else None,
        times_ns=(atime_at if asked(4) else None, mtime_at if asked(5) else None),
    )


def transfer_of(request: Request) -> Transfer:
    """READ, WRITE or READDIR."""
    handle, offset, size, _, _, _, _ = _RW.unpack_from(request.body)
    return Transfer(handle, offset, size, request.body[_RW.size :])


def handle_of(request: Request) -> int:
    """FSYNC, FSYNCDIR, RELEASE or RELEASEDIR: the handle."""
    return int(_HANDLE.unpack_from(request.body)[0])


def attr_handle_of(request: Request) -> int | None:
    """GETATTR: the handle to ask, if any."""
    flags, _, handle = Struct("<IIQ").unpack_from(request.body)
    return handle if flags & 1 else None


def open_flags_of(request: Request) -> int:
    """OPEN or CREATE: the flags of open(2)."""
    return int(_TWO.unpack_from(request.body)[0])


def create_of(request: Request) -> tuple[int, str]:
    """CREATE: mode and name."""
    _, mode, umask, _ = _CREATE.unpack_from(request.body)
    return mode & ~umask, request.names(_CREATE.size)[0]


def mknod_of(request: Request) -> tuple[int, str]:
    """MKNOD: mode and name."""
    mode, _, umask, _ = _CREATE.unpack_from(request.body)
    return mode & ~umask, request.names(_CREATE.size)[0]


def mkdir_of(request: Request) -> tuple[int, str]:
    """MKDIR: mode and name."""
    mode, umask = _TWO.unpack_from(request.body)
    return mode & ~umask, request.names(_TWO.size)[0]


def rename_of(request: Request) -> tuple[int, str, str, int]:
    """RENAME or RENAME2: the new parent, the old and the new name, flags of renameat2(2)."""
    if request.opcode == Op.RENAME2:
        parent, flags, _ = _RENAME2.unpack_from(request.body)
        old, new = request.names(_RENAME2.size)
        return parent, old, new, flags
    (parent,) = _ONE.unpack_from(request.body)
    old, new = request.names(_ONE.size)
    return parent, old, new, 0


def forgotten_of(request: Request) -> list[tuple[int, int]]:
    """FORGET or BATCH_FORGET: nodes, each with how many of its lookups are over."""
    if request.opcode == Op.FORGET:
        return [(request.node, _ONE.unpack_from(request.body)[0])]
    count, _ = _TWO.unpack_from(request.body)
    return [_FORGET.unpack_from(request.body, _TWO.size + i * _FORGET.size) for i in range(count)]


# --------------------------------------------------------------------------- answers


def answer(unique: int, *parts: bytes) -> bytes:
    """A request was done."""
    body = b"".join(parts)
    return _OUT.pack(_OUT.size + len(body), 0, unique) + body


def refusal(unique: int, number: int) -> bytes:
    """A request was refused with an errno."""
    return _OUT.pack(_OUT.size, -(number or errno.EIO), unique)


def drop_cache(node: int) -> bytes:
    """Tell the kernel to forget what it has read of a file."""
    return _OUT.pack(_OUT.size + _INVAL.size, _INVAL_INODE, 0) + _INVAL.pack(node, 0, 0)


def init() -> bytes:
    """INIT: our protocol. No writeback cache: each write reaches us within its system call.

    Locks are not offered, so that the kernel keeps them itself.
    """
    flags = _ASYNC_READ | _BIG_WRITES
    return _INIT_OUT.pack(
        MAJOR,
        MINOR,
        _WRITE_BYTES_MAX,
        flags,
        _BACKGROUND_MAX,
        _BACKGROUND_MAX,
        _WRITE_BYTES_MAX,
        1,
        0,
        0,
        0,
    )


def attributes(seen: os.stat_result, *, links: int | None = None) -> bytes:
    """``fuse_attr``; ``links``: the count to tell in the place of the true one."""
    times = (seen.st_atime_ns, seen.st_mtime_ns, seen.st_ctime_ns)
    return _ATTR.pack(
        seen.st_ino,
        seen.st_size,
        -(-seen.st_size // _SECTOR_BYTES),
        *(ns // _NS for ns in times),
        *(ns % _NS for ns in times),
        seen.st_mode,
        seen.st_nlink if links is None else links,
        seen.st_uid,
        seen.st_gid,
        0,
        _BLOCK_BYTES,
        0,
    )


def entry(node: int, attr: bytes) -> bytes:
    """LOOKUP, MKNOD, MKDIR, and the first half of CREATE."""
    return _ENTRY.pack(node, 0, _FOREVER_S, _FOREVER_S, 0, 0) + attr


def attr_answer(attr: bytes) -> bytes:
    """GETATTR, SETATTR."""
    return _ATTR_HEAD.pack(_FOREVER_S, 0, 0) + attr


def opened(handle: int) -> bytes:
    """OPEN, OPENDIR, and the second half of CREATE; what was cached of the file is dropped."""
    return _OPENED.pack(handle, 0, 0)


def written(size: int) -> bytes:
    """WRITE."""
    return _WRITTEN.pack(size, 0)


def statfs(seen: os.statvfs_result, *, full: bool) -> bytes:
    """STATFS; ``full``: as if there were no room left."""
    free, available = (0, 0) if full else (seen.f_bfree, seen.f_bavail)
    return _STATFS.pack(
        seen.f_blocks,
        free,
        available,
        seen.f_files,
        seen.f_ffree,
        seen.f_bsize,
        seen.f_namemax,
        seen.f_frsize,
        0,
    )


def listing(entries: Sequence[tuple[str, int, int]], begin: int, size: int) -> bytes:
    """READDIR: of (name, inode, mode) those from the index ``begin`` on that have room."""
    found, room = [], size
    for packed in _dirents(entries[begin:], begin):
        room -= len(packed)
        if room < 0:
            break
        found.append(packed)
    return b"".join(found)


def _dirents(entries: Iterable[tuple[str, int, int]], begin: int) -> Iterable[bytes]:
    for number, (name, inode, mode) in enumerate(entries, start=begin + 1):
        raw = os.fsencode(name)
        head = _DIRENT.pack(inode, number, len(raw), stat.S_IFMT(mode) >> 12)
        yield (head + raw).ljust(-(-(_DIRENT.size + len(raw)) // 8) * 8, b"\0")
