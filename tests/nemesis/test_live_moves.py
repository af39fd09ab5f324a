"""A voter that moves, with real processes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.support.live.moves import move_there_and_back
from tests.support.live.scene import SPEC, play

DYNAMIC = replace(SPEC, settings={"krucible.quorum": "dynamic"})


def test_a_voter_moves_the_others_hear_of_it_and_it_moves_back(tmp_path: Path) -> None:
    play(tmp_path, move_there_and_back, DYNAMIC, frozenset())
