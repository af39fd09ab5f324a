"""Names of stores and runs in object storage: ``s3://BUCKET/PREFIX``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from harness.errors import UsageError

SCHEME: Final = "s3://"
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")  # as Amazon S3 has them
_PART: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=-]*")


def is_remote(text: str) -> bool:
    """Tell whether a text names something in object storage."""
    return text.startswith(SCHEME)


@dataclass(frozen=True, slots=True)
class Address:
    """A bucket, and what the names of the objects that are meant begin with; "" for all."""

    bucket: str
    prefix: str = ""

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read ``s3://BUCKET/PREFIX``.

        Raises:
            UsageError: It is none. Credentials in it are refused: they belong into the environment.
        """
        if not is_remote(text):
            raise UsageError(f"{text}: want a folder, or {SCHEME}BUCKET/PREFIX")
        bucket, _, prefix = text.removeprefix(SCHEME).partition("/")
        if "@" in bucket:
            raise UsageError(
                f"{SCHEME}...: want no credentials in the name of a store; set AWS_PROFILE, or "
                "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            )
        if not _BUCKET.fullmatch(bucket):
            raise UsageError(f"{text}: {bucket!r} is no name of a bucket; want {SCHEME}BUCKET/...")
        parts = [part for part in prefix.split("/") if part]
        for part in parts:
            if not _PART.fullmatch(part):
                raise UsageError(
                    f"{text}: {part!r} cannot be part of a prefix: use letters, digits, '.', '_', "
                    "'=' and '-', beginning with a letter or digit"
                )
        return cls(bucket, "/".join(parts))

    def __str__(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.prefix}".rstrip("/")

    def key(self, name: str) -> str:
        """The object of that name, from the bucket on."""
        return "/".join(filter(None, (self.bucket, self.prefix, name)))

    def parent(self) -> tuple[Address, str] | None:
        """The store and the run, FAMILY/RUN, if this is the address of a run; else None."""
        parts = self.prefix.split("/")
        if len(parts) < 2:  # noqa: PLR2004 - the family and the run
            return None
        return Address(self.bucket, "/".join(parts[:-2])), "/".join(parts[-2:])
