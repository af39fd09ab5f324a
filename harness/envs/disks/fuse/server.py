"""One file system of ours for one node.

``python -m harness.envs.disks.fuse.server ROOT FOLDER SOURCE [LIES_ABOUT [PID]]`` serves the folder
ROOT, mounted over itself, with the troubles and the journal in FOLDER (``fuse_files``). It is in
the mount namespace of the process PID, a container's, or else in a new one that only the node is to
enter. It ends by SIGKILL, with its mount, or with ``POWER_LOST`` once the power was to fail; then
it has killed whoever used it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import stat
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NoReturn

from harness.agent.mounts import mount_apart, mount_inside, open_device
from harness.envs.disks.fuse import protocol as proto
from harness.envs.disks.fuse.files import Files
from harness.envs.disks.fuse.protocol import Op, Request

POWER_LOST: Final = 75
LOG: Final = "files.log"  # where what it prints goes, in FOLDER
_SYNCS_MAX: Final = 8  # fsyncs at a time


class Server:
    """Answers what the kernel asks of the files below a folder."""

    def __init__(self, device: int, root: Path, folder: Path, lies_about: str | None) -> None:
        self._device = device
        self._files = Files(root, folder, self._lose_power, lies_about=lies_about)
        self._syncs = ThreadPoolExecutor(_SYNCS_MAX)
        self._user = 0  # who has asked last: a thread of the node
        self._reads_fail = threading.Event()
        self._does: dict[int, Callable[[Request], bytes | None]] = {
            Op.LOOKUP: self._lookup,
            Op.FORGET: self._forget,
            Op.BATCH_FORGET: self._forget,
            Op.GETATTR: self._getattr,
            Op.SETATTR: self._setattr,
            Op.MKNOD: self._mknod,
            Op.MKDIR: self._mkdir,
            Op.UNLINK: self._unlink,
            Op.RMDIR: self._rmdir,
            Op.RENAME: self._rename,
            Op.RENAME2: self._rename,
            Op.OPEN: self._open,
            Op.CREATE: self._create,
            Op.READ: self._read,
            Op.WRITE: self._write,
            Op.STATFS: self._statfs,
            Op.RELEASE: self._release,
            Op.RELEASEDIR: self._release,
            Op.FSYNC: self._fsync,
            Op.FSYNCDIR: self._fsyncdir,
            Op.INIT: self._init,
            Op.OPENDIR: self._opendir,
            Op.READDIR: self._readdir,
            Op.INTERRUPT: lambda _: None,
            Op.DESTROY: lambda _: b"",
        }

    def serve(self) -> None:
        """Answer the kernel's requests until the mount is gone."""
        threading.Thread(target=self._drop_caches, daemon=True).start()
        while True:
            try:
                data = os.read(self._device, proto.REQUEST_BYTES_MAX)
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return
                if error.errno in (errno.EINTR, errno.ENOENT, errno.EAGAIN):
                    continue  # who asked was interrupted before we could read it
                raise
            self._handle(proto.decode(data))

    def _handle(self, request: Request) -> None:
        self._user = request.pid or self._user
        try:
            do = self._does.get(request.opcode)
            body = _no_such(request) if do is None else do(request)
        except OSError as error:
            self._reply(proto.refusal(request.unique, error.errno or errno.EIO))
            return
        if body is not None:
            self._reply(proto.answer(request.unique, body))
        if "read" in self._files.troubles.now().failing:
            self._reads_fail.set()

    def _reply(self, data: bytes) -> None:
        with contextlib.suppress(FileNotFoundError):  # who asked has been interrupted
            os.write(self._device, data)

    def _lose_power(self) -> NoReturn:
        """Kill the process that uses the disk, and end at once: nothing more reaches the disk."""
        if self._user:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._user, signal.SIGKILL)
        os._exit(POWER_LOST)

    def _drop_caches(self) -> None:
        """Empty the kernel's cache whenever reads begin to fail, so that it answers none."""
        while True:
            self._reads_fail.wait()
            self._reads_fail.clear()
            for node in list(self._files.open_nodes()):
                with contextlib.suppress(OSError):  # the kernel knows it no more
                    os.write(self._device, proto.drop_cache(node))

    # ------------------------------------------------------------------ one for each operation

    def _init(self, request: Request) -> bytes:
        major, minor = proto.init_version(request)
        if (major, minor) < (proto.MAJOR, proto.MINOR):
            sys.exit(f"this kernel speaks FUSE {major}.{minor}: want 7.31 (Linux 5.2) or newer")
        return proto.init()

    def _entry(self, node: int, seen: os.stat_result) -> bytes:
        return proto.entry(node, proto.attributes(seen, links=1))

    def _attr(self, node: int, seen: os.stat_result) -> bytes:
        return proto.attr_answer(proto.attributes(seen, links=self._files.links(node)))

    def _lookup(self, request: Request) -> bytes:
        return self._entry(*self._files.lookup(request.node, request.name))

    def _forget(self, request: Request) -> None:
        for node, lookups in proto.forgotten_of(request):
            self._files.forget(node, lookups)

    def _getattr(self, request: Request) -> bytes:
        handle = proto.attr_handle_of(request)
        return self._attr(request.node, self._files.attributes(request.node, handle))

    def _setattr(self, request: Request) -> bytes:
        wanted = proto.setattr_of(request)
        return self._attr(request.node, self._files.set_attributes(request.node, wanted))

    def _mknod(self, request: Request) -> bytes:
        mode, name = proto.mknod_of(request)
        return self._entry(*self._files.mknod(request.node, name, mode))

    def _mkdir(self, request: Request) -> bytes:
        mode, name = proto.mkdir_of(request)
        return self._entry(*self._files.mkdir(request.node, name, mode))

    def _unlink(self, request: Request) -> bytes:
        self._files.unlink(request.node, request.name)
        return b""

    def _rmdir(self, request: Request) -> bytes:
        self._files.rmdir(request.node, request.name)
        return b""

    def _rename(self, request: Request) -> bytes:
        parent, old, new, flags = proto.rename_of(request)
        self._files.rename(request.node, old, parent, new, flags)
        return b""

    def _open(self, request: Request) -> bytes:
        return proto.opened(self._files.open(request.node, proto.open_flags_of(request)))

    def _create(self, request: Request) -> bytes:
        mode, name = proto.create_of(request)
        node, seen, handle = self._files.create(request.node, name, stat.S_IFREG | mode)
        return self._entry(node, seen) + proto.opened(handle)

    def _read(self, request: Request) -> bytes:
        wanted = proto.transfer_of(request)
        return self._files.read(wanted.handle, wanted.offset, wanted.size)

    def _write(self, request: Request) -> bytes:
        wanted = proto.transfer_of(request)
        return proto.written(self._files.write(wanted.handle, wanted.offset, wanted.data))

    def _statfs(self, request: Request) -> bytes:
        del request
        seen, full = self._files.room()
        return proto.statfs(seen, full=full)

    def _release(self, request: Request) -> bytes:
        self._files.release(proto.handle_of(request))
        return b""

    def _fsync(self, request: Request) -> None:
        """Answered from another thread: one may take long, and others have other files."""
        finish = self._files.fsync(proto.handle_of(request))

        def rest() -> None:
            try:
                finish()
            except OSError as error:
                self._reply(proto.refusal(request.unique, error.errno or errno.EIO))
            else:
                self._reply(proto.answer(request.unique))

        self._syncs.submit(rest)

    def _fsyncdir(self, request: Request) -> bytes:
        self._files.fsync_folder(proto.handle_of(request))
        return b""

    def _opendir(self, request: Request) -> bytes:
        return proto.opened(self._files.open_folder(request.node))

    def _readdir(self, request: Request) -> bytes:
        wanted = proto.transfer_of(request)
        entries = self._files.entries(wanted.handle)
        return proto.listing(entries, wanted.offset, wanted.size)


def _no_such(request: Request) -> NoReturn:
    raise OSError(errno.ENOSYS, f"operation {request.opcode}")


def main() -> int:
    """Mount, and serve."""
    root, folder, source, lies_about, pid = (*sys.argv[1:], "", "")[:5]
    device = open_device()
    server = Server(device, Path(root), Path(folder), lies_about or None)
    if pid:
        mount_inside(device, Path(root), source, int(pid))
    else:
        mount_apart(device, Path(root), source)
    server.serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
