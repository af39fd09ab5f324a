"""The rows of the catalogue of real bugs that this node cannot have, and why."""

from __future__ import annotations

from collections.abc import Mapping

# By number of the row; the reason is one sentence.
ROWS: Mapping[int, str] = {
    23: "nothing registers for leadership later than the node's start: the driver is one object",
}
