"""The objects of a bucket, through fsspec: the one place that talks to the object storage.

Credentials, region and endpoint come from where the AWS tools look for them: the environment,
``~/.aws``, the role of the host. Each error is one line.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

from harness.errors import EnvError, UsageError
from harness.store.remote.address import SCHEME, Address

RETRIES: Final = {"max_attempts": 4, "mode": "standard"}
CONNECT_S: Final = 10
DELETE_MAX: Final = 1_000  # objects in one request
_LOGIN: Final = (
    "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the host a role"
)


@dataclass(frozen=True, slots=True)
class Entry:
    """An object as a listing shows it."""

    name: str  # from the address on
    size: int
    tag: str  # changes with its content
    changed: datetime


class Objects:
    """The objects below an address. Names are from the address on.

    Every method raises UsageError for a bucket that is not there, or access that is denied, and
    EnvError for a server that cannot be reached.
    """

    def __init__(self, address: Address) -> None:
        """Look whether the bucket is there; raises as all methods do."""
        self.address = address
        if importlib.util.find_spec("s3fs") is None:
            raise UsageError(
                f"{address}: stores in object storage need s3fs: install krucible with its extra "
                "[s3]"
            )
        with self._told():
            self._fs = _client(os.getpid(), _settings())
            self._fs.call_s3("list_objects_v2", Bucket=address.bucket, MaxKeys=1)

    def below(self, name: str) -> list[Entry]:
        """The objects whose names begin with ``name/``, by name; "" for all."""
        folder, base = f"{self.address.key(name)}/", f"{self.address.key('')}/"
        with self._told():
            found = self._fs.find(folder, detail=True)
        # some servers list the folder itself
        inside = {key: told for key, told in found.items() if key.startswith(folder)}
        return [_entry(key.removeprefix(base), told) for key, told in sorted(inside.items())]

    def entry(self, name: str) -> Entry | None:
        """An object; None when it is not there."""
        with self._told():
            try:
                told = self._fs.info(self.address.key(name))
            except FileNotFoundError:
                return None
        return _entry(name, told) if told["type"] == "file" else None

    def read(self, name: str) -> bytes | None:
        """The content of an object; None when it is not there."""
        with self._told():
            try:
                content: bytes = self._fs.cat_file(self.address.key(name))
            except FileNotFoundError:
                return None
        return content

    def write(self, name: str, content: bytes) -> None:
        """Write an object; it appears whole or not at all."""
        with self._told():
            self._fs.pipe_file(self.address.key(name), content)

    def upload(self, path: Path, name: str) -> None:
        """Write a file as an object; it appears whole or not at all."""
        with self._told():
            self._fs.put_file(str(path), self.address.key(name))

    def download(self, name: str, path: Path) -> None:
        """Write an object to a file, in parts that may be left when it fails."""
        with self._told():
            try:
                self._fs.get_file(self.address.key(name), str(path))
            except FileNotFoundError as error:
                raise EnvError(
                    f"{self.address}/{name}: {error}; it was removed meanwhile, or never stored"
                ) from error

    def remove(self, names: Iterable[str]) -> None:
        """Remove objects; one that is not there is no error."""
        keys = [self.address.key(name).partition("/")[2] for name in names]
        for some in _chunks(keys, DELETE_MAX):
            with self._told():
                told = self._fs.call_s3(
                    "delete_objects",
                    Bucket=self.address.bucket,
                    Delete={"Objects": [{"Key": key} for key in some], "Quiet": True},
                )
            for error in told.get("Errors") or ():
                what = f"{SCHEME}{self.address.bucket}/{error.get('Key')}"
                raise UsageError(f"{what}: cannot be removed: {error.get('Message')}")

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Tell what went wrong in one line."""
        from botocore import exceptions  # noqa: PLC0415 - it comes with s3fs

        bucket = f"{SCHEME}{self.address.bucket}"
        try:
            yield
        except FileNotFoundError as error:
            raise UsageError(
                f"{bucket}: {error}; make the bucket first, or name another --store"
            ) from error
        except PermissionError as error:
            raise UsageError(f"{bucket}: access is denied: {error}; {_LOGIN}") from error
        except (
            exceptions.NoCredentialsError,
            exceptions.PartialCredentialsError,
            exceptions.ProfileNotFound,
        ) as error:
            raise UsageError(f"{bucket}: {error}; {_LOGIN}") from error
        except (exceptions.BotoCoreError, exceptions.ClientError, OSError) as error:
            raise EnvError(
                f"{bucket}: {error}; see AWS_ENDPOINT_URL, AWS_REGION and the network"
            ) from error


@cache
def _client(pid: int, settings: frozenset[tuple[str, str]]) -> Any:  # noqa: ARG001 - what it is for
    """The client of this process, with the settings of the environment: to make one takes 0.3 s."""
    import s3fs  # noqa: PLC0415 - an extra brings it

    return s3fs.S3FileSystem(
        use_listings_cache=False,
        skip_instance_cache=True,
        config_kwargs={"retries": RETRIES, "connect_timeout": CONNECT_S},
    )


def _settings() -> frozenset[tuple[str, str]]:
    return frozenset(
        (name, value) for name, value in os.environ.items() if name.startswith(("AWS_", "HOME"))
    )


def _entry(name: str, told: dict[str, Any]) -> Entry:
    changed = told.get("LastModified") or datetime.now(UTC)
    return Entry(name, int(told["size"]), str(told.get("ETag", "")).strip('"'), changed)


def _chunks(items: Sequence[str], most: int) -> Iterator[Sequence[str]]:
    for at in range(0, len(items), most):
        yield items[at : at + most]
