"""What commands share: consoles."""

from __future__ import annotations

import pytest

from krucible.console import err, out


def test_a_name_between_colons_is_no_picture(capsys: pytest.CaptureFixture[str]) -> None:
    """An entry of a night may be called ``a``: ``sim:a: invalid`` stays as it is."""
    out().print("sim:a: invalid", markup=False)
    err().print("sim:b: invalid", markup=False)
    assert tuple(capsys.readouterr()) == ("sim:a: invalid\n", "sim:b: invalid\n")
