"""The rows of the catalogue of real bugs that this node cannot have, or not show yet, and why."""

from __future__ import annotations

from collections.abc import Mapping

# By number of the row; the reason is one sentence.
ROWS: Mapping[int, str] = {
    4: "it takes the loss of committed records by a majority of disks, and then no node is healthy",
    23: "nothing registers for leadership later than the node's start: the driver is one object",
    29: "to renounce drops what is above the committed image: there is no snapshot to go back to",
    32: "an answer's records are read in the step that decides on it: nothing cuts the log between",
}

# Could exist here, but no fault or no invariant brings them out: what would.
PENDING: Mapping[int, str] = {
    30: "more controllers than the first voters, so that all that a node knows of can be replaced",
}
