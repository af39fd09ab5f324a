"""The checkers go by the node as it is, while the node that plays is changed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.support.mutations import mutations

ROOT = Path(__file__).resolve().parents[2]
FILE = "node/controller/features.py"
PLAYED = """
import json, sys
from importlib import import_module
from pathlib import Path
from bench.support import reference
from bench.support.mutations import Mutation, plant

order = json.loads(sys.argv[1])
if order["keep"]:
    reference.keep()
if order["mutation"]:
    plant(Mutation(**order["mutation"]), Path(order["root"]))
run = import_module("bench.support.hunting").play(0, "explore")
asked = import_module("checkers.invariants.controller_answers").Answering.answer.__globals__
due = asked["QuorumController"].update_features.__globals__["features"]
mine = import_module("node.controller.features")
same_values = asked["MetadataImage"] is import_module("node.metadata.image").MetadataImage
told = [due._check.__code__ == mine._check.__code__, same_values, run.trace_sha256]
counts = {each.checker: each.checked.get("C17", 0) for each in run.judgement.results}
print(json.dumps([*told, counts["observers"]]))
"""


def told(*, keep: bool, mutation: dict[str, Any] | None = None) -> list[Any]:
    """Tell whether checker and node run the same code, and exchange values.

    Then come a run's hash, and how many answers were judged in it.
    """
    order = json.dumps({"keep": keep, "mutation": mutation, "root": str(ROOT)})
    argv = [sys.executable, "-c", PLAYED, order]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    answer: list[Any] = json.loads(done.stdout)
    return answer


def test_the_controller_that_checkers_ask_is_not_changed() -> None:
    source = (ROOT / FILE).read_text(encoding="utf-8")
    change = next(m for m in mutations(FILE, source) if "new < old" in m.before)
    assert told(keep=True, mutation=change.to_json())[:2] == [False, True]
    assert told(keep=False, mutation=change.to_json())[:2] == [True, True]


def test_an_unchanged_node_plays_the_same_beside_it() -> None:
    _, _, sha256, judged = told(keep=True)
    assert judged > 0
    assert told(keep=False) == [True, True, sha256, judged]
