"""Metadata transactions (KIP-868): all at once, or never."""

from __future__ import annotations

import pytest

from node.metadata.fold import apply_record
from node.metadata.image import ImageError, MetadataImage
from node.metadata.schemas import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    MetadataRecord,
)
from node.metadata.transactions import Transactions

BEGIN, END, ABORT = BeginTransactionRecord(), EndTransactionRecord(), AbortTransactionRecord()


def setting(value: str) -> ConfigRecord:
    return ConfigRecord(resource_type=4, resource_name="", name="k", value=value)


def played(*records: MetadataRecord) -> tuple[MetadataImage, list[int], Transactions]:
    """The image, the image's end offset after each record, and the gate."""
    image, gate, ends = MetadataImage(), Transactions(), []
    for offset, record in enumerate(records):
        for ready, at in gate.feed(record, offset):
            apply_record(image, ready, at)
        ends.append(image.end_offset)
    return image, ends, gate


def test_records_outside_of_a_transaction_count_at_once() -> None:
    image, ends, gate = played(setting("1"), setting("2"))
    assert (ends, gate.open, gate.start) == ([1, 2], False, None)
    assert image.config((4, "")) == {"k": "2"}


def test_records_of_a_transaction_count_when_it_ends() -> None:
    image, ends, gate = played(setting("1"), BEGIN, setting("2"), setting("3"))
    assert (ends, gate.open, gate.start) == ([1, 1, 1, 1], True, 1)
    assert image.config((4, "")) == {"k": "1"}
    image, ends, gate = played(setting("1"), BEGIN, setting("2"), setting("3"), END)
    assert (ends, gate.open) == ([1, 1, 1, 1, 5], False)
    assert image.config((4, "")) == {"k": "3"}


def test_records_of_an_aborted_transaction_never_count_but_the_offset_moves_on() -> None:
    image, ends, gate = played(setting("1"), BEGIN, setting("2"), ABORT, setting("3"))
    assert (ends, gate.open) == ([1, 1, 1, 4, 5], False)
    plain, _, _ = played(setting("1"), setting("3"))
    assert (image, image.digest) == (plain, plain.digest)


def test_one_transaction_after_another() -> None:
    image, _, _ = played(BEGIN, setting("1"), END, BEGIN, setting("2"), END)
    assert image.config((4, "")) == {"k": "2"}


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ((BEGIN, BEGIN), "at 1 begins within that of 0"),
        ((END,), "EndTransactionRecord at 0 ends no transaction"),
        ((BEGIN, END, ABORT), "AbortTransactionRecord at 2 ends no transaction"),
    ],
)
def test_marks_that_do_not_pair_are_refused(
    records: tuple[MetadataRecord, ...], message: str
) -> None:
    with pytest.raises(ImageError, match=message):
        played(*records)
