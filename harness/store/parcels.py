"""Runs on their way from the machine that made them to the store that they belong into."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, cast

from harness.errors import UsageError
from harness.store.folder import RunDir, Store

DRAFT = ".arriving-"  # begins the names of folders in a store whose runs are not whole yet


@dataclass(frozen=True, slots=True)
class Parcel:
    """A run: the path at which it was made, and its files as a compressed archive."""

    path: str
    files: bytes


def packed(store: Store) -> list[Parcel]:
    """Pack all runs of a store, the oldest first, and remove them from it."""
    return [_pack(run.path) for run in store.runs()]


def _pack(path: Path) -> Parcel:
    files = io.BytesIO()
    with tarfile.open(fileobj=files, mode="w:gz", compresslevel=1) as archive:
        archive.add(path, arcname=".")
    shutil.rmtree(path)
    return Parcel(str(path), files.getvalue())


def delivered(parcel: Parcel, store: Store) -> RunDir:
    """Unpack a run into a store, where it appears whole or not at all; raises UsageError."""
    store.root.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=DRAFT, dir=store.root))
    try:
        made = draft / "files" / "run"  # deeper than runs of a store lie
        with tarfile.open(fileobj=io.BytesIO(parcel.files), mode="r:gz") as archive:
            _unpack(archive, made)
        return store.adopt(made)
    finally:
        shutil.rmtree(draft)


def _unpack(archive: tarfile.TarFile, folder: Path) -> None:
    """Write the files of an archive, with their times, into a new folder.

    Python before 3.11.4 has no filter that keeps archives from writing elsewhere.

    Raises:
        UsageError: It holds what is no file or folder, or is to lie outside.
    """
    folder.mkdir(parents=True)
    for member in archive:
        place = PurePosixPath(member.name)
        is_inside = not place.is_absolute() and ".." not in place.parts
        if not is_inside or not (member.isfile() or member.isdir()):
            raise UsageError(f"a run came with {member.name!r}, which is no file of it")
        path = folder / place
        if member.isdir():
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        with cast("IO[bytes]", archive.extractfile(member)) as source, path.open("wb") as target:
            shutil.copyfileobj(source, target)
        os.utime(path, (member.mtime, member.mtime))
