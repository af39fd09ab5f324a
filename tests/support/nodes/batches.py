"""Record batches for tests."""

from __future__ import annotations

from node.core.messages import Batch
from node.log.batch import encode_batch, parse_batch


def batch(base: int, *values: bytes, epoch: int = 1, control: bool = False) -> Batch:
    """A batch of these values at ``base``."""
    records = [(None, value) for value in values or (b"value",)]
    return parse_batch(encode_batch(base, epoch, records, control=control, timestamp_ms=1234567))
