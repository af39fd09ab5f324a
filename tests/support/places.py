"""Folders of the project that tests read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
TESTDATA: Final = ROOT / "tests" / "testdata"
SUPPORT: Final = ROOT / "tests" / "support"
CORPORA: Final = Path(os.environ.get("KRUCIBLE_CORPORA") or ROOT.parent / "shared" / "corpora")
