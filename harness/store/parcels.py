"""Runs on their way from the machine that made them to the store that they belong into."""

from __future__ import annotations

import io
import shutil
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

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
            archive.extractall(made, filter="data")
        return store.adopt(made)
    finally:
        shutil.rmtree(draft)
