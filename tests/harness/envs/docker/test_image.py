"""What goes into the image of a node."""

from __future__ import annotations

from importlib import util
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.envs.docker import image as docker_image


def test_the_image_has_the_code_of_the_node_and_no_caches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("__init__.py", "core/quorum.py", "core/__pycache__/quorum.pyc", ".cache/x.json"):
        file = tmp_path / ".venv" / "node" / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(place)
    origin = str(tmp_path / ".venv" / "node" / "__init__.py")
    monkeypatch.setattr(util, "find_spec", lambda _: SimpleNamespace(origin=origin))
    found = dict(docker_image._node_files())
    assert found == {each: each.encode() for each in ("__init__.py", "core/quorum.py")}
