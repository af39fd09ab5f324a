"""Values of the core compare by their fields; the type checker keeps them from being set."""

from __future__ import annotations

from dataclasses import replace

import pytest

from node.core.inputs import LogFlushed
from node.core.types import ReplicaKey


def test_a_value_compares_and_hashes_by_its_fields() -> None:
    assert LogFlushed(7) == LogFlushed(7) != LogFlushed(8)
    assert {LogFlushed(7), replace(LogFlushed(8), upto=7)} == {LogFlushed(7)}


def test_an_ordered_value_sorts_by_its_fields() -> None:
    assert sorted([ReplicaKey(3), ReplicaKey(1)]) == [ReplicaKey(1), ReplicaKey(3)]


def test_the_type_checker_alone_keeps_a_field_from_being_set() -> None:
    """``make check`` fails when it no longer refuses this line, as the remark is unused then."""
    flushed = LogFlushed(7)
    flushed.upto = 8  # type: ignore[misc]
    assert flushed.upto == 8


def test_a_value_has_no_other_fields() -> None:
    with pytest.raises(AttributeError):
        LogFlushed(7).since = 3  # type: ignore[attr-defined]
