"""Images of Apache Kafka's nodes: what their events say of them, by our digest of their records.

Live nodes write the records of an image into the event, as they cannot know our digest. Once the
events are in the store, ``digest_images`` puts the digest in the place of the records.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.systems.kafka.simulated.packed import unpack_values
from node.metadata.image import ImageError, MetadataImage
from node.metadata.orphans import drop_orphans
from node.metadata.records import RecordError, decode_record
from node.metadata.snapshot import image_of_records

IMAGE: Final = "image"
RECORDS: Final = "records"  # the field of an event: deflated and in Base64
UNREADABLE: Final = "unreadable"  # the field that says why they could not be read
_MARK: Final = b'"t":"image"'


def image_fields(image: MetadataImage) -> dict[str, Any]:
    """Tell what an event has beside an image's digest; orphaned settings are taken out of it.

    Where it has passwords, tell of all but these; where it has settings of topics that are not
    there, tell of these, and of all others apart. Settings of topics are told by themselves, as
    a topic may have those of another one of its name that is gone.
    """
    fields: dict[str, Any] = {}
    if image.scram:
        fields["open"] = image.digest_without_passwords()
    orphans = drop_orphans(image)
    if settings := image.topic_settings():
        fields["settings"] = settings
    if orphans:
        fields |= {"orphans": orphans, "bare": image.digest}
    return fields


def digest_images(path: Path) -> None:
    """Put digests in the place of records in a node's events.

    An image that cannot be read keeps its event, which says why; checkers take it for damaged.

    Raises:
        OSError: The file cannot be read, or written anew.
    """
    if not path.is_file():
        return
    made = path.with_suffix(".digested")
    with path.open("rb") as told, made.open("wb") as out:
        out.writelines(_digested(told))
    made.replace(path)


def _digested(lines: Iterable[bytes]) -> Iterator[bytes]:
    for line in lines:
        yield _told_anew(line) if _MARK in line else line


def _told_anew(line: bytes) -> bytes:
    try:
        event = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return line  # torn: whoever reads the events says so
    if not isinstance(event, dict) or event.get("t") != IMAGE or RECORDS not in event:
        return line
    packed = event.pop(RECORDS)
    try:
        values = unpack_values(zlib.decompress(base64.b64decode(packed, validate=True)))
        image = image_of_records(map(decode_record, values), event["off"])
    except (binascii.Error, zlib.error, RecordError, ImageError) as error:
        return msgspec.json.encode({**event, UNREADABLE: str(error)}) + b"\n"
    told = {**event, "digest": image.digest}
    return msgspec.json.encode({**told, **image_fields(image)}) + b"\n"
