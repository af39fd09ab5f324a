"""The kernel's FUSE protocol as bytes, by the layouts of ``linux/fuse.h``."""

from __future__ import annotations

import errno
import os
import stat
import struct
from pathlib import Path

import pytest

from harness.envs.disks.fuse import protocol as proto
from harness.envs.disks.fuse.protocol import NOW, Op, Request, SetAttr, Transfer


def request(opcode: int, body: bytes, node: int = 7) -> Request:
    head = struct.pack("<IIQQIIII", 40 + len(body), opcode, 3, node, 0, 0, 99, 0)
    return proto.decode(head + body)


def test_a_request_is_known_by_its_header() -> None:
    found = request(Op.LOOKUP, b"name\0")
    assert (found.opcode, found.unique, found.node, found.pid) == (Op.LOOKUP, 3, 7, 99)
    assert found.name == "name"


@pytest.mark.parametrize("data", [b"", b"\0" * 39, struct.pack("<IIQQIIII", 41, *[0] * 7)])
def test_bytes_that_are_no_request_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=f"a FUSE request of {len(data)} bytes"):
        proto.decode(data)


def test_bodies_of_requests() -> None:
    write = struct.pack("<QQIIQII", 5, 4096, 3, 0, 0, 0, 0)
    assert proto.transfer_of(request(Op.WRITE, write + b"abc")) == Transfer(
        5, 4096, 3, memoryview(b"abc")
    )
    assert proto.handle_of(request(Op.FSYNC, struct.pack("<QII", 5, 1, 0))) == 5
    assert proto.open_flags_of(request(Op.OPEN, struct.pack("<II", os.O_RDWR, 0))) == os.O_RDWR
    create = struct.pack("<IIII", os.O_RDWR, stat.S_IFREG | 0o666, 0o022, 0) + b"log\0"
    assert proto.create_of(request(Op.CREATE, create)) == (stat.S_IFREG | 0o644, "log")
    mkdir = struct.pack("<II", 0o777, 0o027) + b"sub\0"
    assert proto.mkdir_of(request(Op.MKDIR, mkdir)) == (0o750, "sub")
    names = b"old\0new\0"
    assert proto.rename_of(request(Op.RENAME, struct.pack("<Q", 9) + names)) == (9, "old", "new", 0)
    renamed = request(Op.RENAME2, struct.pack("<QII", 9, 1, 0) + names)
    assert proto.rename_of(renamed) == (9, "old", "new", 1)
    assert proto.forgotten_of(request(Op.FORGET, struct.pack("<Q", 2))) == [(7, 2)]
    many = struct.pack("<IIQQQQ", 2, 0, 4, 1, 5, 6)
    assert proto.forgotten_of(request(Op.BATCH_FORGET, many)) == [(4, 1), (5, 6)]
    assert proto.attr_handle_of(request(Op.GETATTR, struct.pack("<IIQ", 1, 0, 5))) == 5
    assert proto.attr_handle_of(request(Op.GETATTR, struct.pack("<IIQ", 0, 0, 5))) is None


def setattr_body(*bits: int) -> bytes:
    valid = sum(1 << bit for bit in bits)
    return struct.pack(
        "<IIQQQQQQIIIIIIII", valid, 0, 5, 100, 0, 1, 2, 0, 11, 22, 0, 0o600, 0, 8, 9, 0
    )


@pytest.mark.parametrize(
    ("bits", "wanted"),
    [
        ((), SetAttr(None, None, None, None, (None, None))),
        ((3, 6), SetAttr(5, 100, None, None, (None, None))),
        ((0,), SetAttr(None, None, 0o600, None, (None, None))),
        ((1, 2), SetAttr(None, None, None, (8, 9), (None, None))),
        ((2,), SetAttr(None, None, None, (-1, 9), (None, None))),
        ((4, 5), SetAttr(None, None, None, None, (1_000_000_011, 2_000_000_022))),
        ((5, 8), SetAttr(None, None, None, None, (None, NOW))),
    ],
)
def test_only_what_is_asked_for_is_changed(bits: tuple[int, ...], wanted: SetAttr) -> None:
    assert proto.setattr_of(request(Op.SETATTR, setattr_body(*bits))) == wanted


def test_sizes_of_answers_are_those_that_the_kernel_wants(tmp_path: Path) -> None:
    attr = proto.attributes(tmp_path.stat())
    sizes = {
        "fuse_attr": (attr, 88),
        "fuse_entry_out": (proto.entry(2, attr), 128),
        "fuse_attr_out": (proto.attr_answer(attr), 104),
        "fuse_init_out": (proto.init(), 64),
        "fuse_open_out": (proto.opened(1), 16),
        "fuse_write_out": (proto.written(1), 8),
        "fuse_statfs_out": (proto.statfs(os.statvfs(tmp_path), full=True), 80),
        "fuse_notify_inval_inode_out": (proto.drop_cache(2), 16 + 24),
    }
    assert {name: len(data) for name, (data, _) in sizes.items()} == {
        name: size for name, (_, size) in sizes.items()
    }
    blocks_free = struct.unpack_from("<QQQ", sizes["fuse_statfs_out"][0])[1:]
    assert blocks_free == (0, 0), "of a disk that is full"


def test_attributes_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 1000)
    os.utime(path, ns=(5_000_000_007, 6_000_000_008))
    seen = path.stat()
    told = struct.unpack("<QQQQQQIIIIIIIIII", proto.attributes(seen, links=1))
    assert told[:5] == (seen.st_ino, 1000, 2, 5, 6)
    assert told[6:8] == (7, 8)
    assert told[9:13] == (seen.st_mode, 1, seen.st_uid, seen.st_gid)


def test_answers_and_refusals() -> None:
    assert proto.answer(3, b"ab") == struct.pack("<IiQ", 18, 0, 3) + b"ab"
    assert proto.refusal(3, errno.ENOENT) == struct.pack("<IiQ", 16, -errno.ENOENT, 3)


@pytest.mark.parametrize("size", [31, 32, 64, 4096])
def test_a_listing_goes_on_where_its_last_part_ended(size: int) -> None:
    entries = [(name, number, stat.S_IFREG) for number, name in enumerate(("a", "bcdefghi", "c"))]
    found, begin = [], 0
    while part := proto.listing(entries, begin, size):
        assert len(part) <= size
        at = 0
        while at < len(part):
            inode, begin, length, kind = struct.unpack_from("<QQII", part, at)
            assert kind == stat.S_IFREG >> 12
            found.append((part[at + 24 : at + 24 + length].decode(), inode))
            at += -(-(24 + length) // 8) * 8
    whole = [(name, inode) for name, inode, _ in entries]
    assert found == (whole if size >= 32 else [])
