"""``[HOST:]PORT`` of a metrics endpoint."""

from __future__ import annotations

import pytest

from harness.errors import UsageError
from harness.telemetry.address import parse


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("9464", "http://127.0.0.1:9464/metrics"),
        ("0.0.0.0:9464", "http://0.0.0.0:9464/metrics"),
        ("[::1]:0", "http://[::1]:0/metrics"),
    ],
)
def test_good_ones(text: str, url: str) -> None:
    assert parse(text).url == url


@pytest.mark.parametrize("text", ["", ":", ":9464", "host", "host:", "::1:80", "h:65536", "h:-1"])
def test_bad_ones_are_told_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match=r"want \[HOST:\]PORT, as in 9464") as told:
        parse(text)
    assert repr(text) in str(told.value)
