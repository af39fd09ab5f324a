"""The action of GitHub works a night: its steps are run here as a runner runs them."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from harness.nightly import entries, plan
from harness.nightly.markdown import to_markdown
from harness.verdict import EXIT_INVALID, EXIT_VALID
from tests.support.commands.nights import CANARY, PLAN, bad, seed_line, told_of
from tests.support.places import ROOT

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
EXPRESSION = re.compile(r"\$\{\{ *(inputs|github)\.([a-z_-]+) *\}\}")
SOUND = """\
budget = "1s"
[[sim]]
name = "short"
voters = 1
observers = 0
workload = "register"
nemesis = ["none"]
time-limit = 1
rate = 40
concurrency = 1
"""


class Runner:
    """Runs the step ``night`` of the action in a folder, with some inputs."""

    def __init__(self, folder: Path, **inputs: str) -> None:
        given = {name: str(each["default"]) for name, each in ACTION["inputs"].items()}
        self._inputs = {**given, **{name.replace("_", "-"): v for name, v in inputs.items()}}
        (step,) = (each for each in ACTION["runs"]["steps"] if each.get("id") == "night")
        self.summary, output = folder / "step-summary", folder / "output"
        environ = {
            **os.environ,
            "PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}",
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "GITHUB_OUTPUT": str(output),
            **{name: self._filled(text) for name, text in step["env"].items()},
        }
        self.done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", self._filled(step["run"])],
            cwd=folder,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        lines = output.read_text(encoding="utf-8").splitlines()
        self.outputs = dict(line.split("=", 1) for line in lines)

    def _filled(self, text: str) -> str:
        values = {"inputs": self._inputs, "github": {"action_path": str(ROOT)}}
        return EXPRESSION.sub(lambda found: values[found[1]][found[2]], text)


def test_a_night_with_a_failure_fails_the_job_and_says_how_to_see_it_again(tmp_path: Path) -> None:
    bug = f'{SOUND}mutant = "ack-before-commit"\n[on-failure]\nshrink = "0s"\n'
    (tmp_path / "plan.toml").write_text(bug, encoding="utf-8")

    run = Runner(tmp_path, plan="plan.toml", seed="1")

    assert run.done.returncode == EXIT_INVALID, run.done.stderr
    assert run.outputs["exit-code"] == str(EXIT_INVALID)
    assert "invalid" in run.outputs["headline"]
    assert (tmp_path / run.outputs["report"]).is_file()
    told = run.summary.read_text(encoding="utf-8")
    assert told.startswith(f"## ❌ krucible: {run.outputs['headline']}")
    assert re.search(r"```\n.*krucible repro \w+ --store .*krucible-store\n", told)


def test_a_green_night_is_a_green_job(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(SOUND, encoding="utf-8")

    run = Runner(tmp_path, plan="plan.toml", budget="2s", store="elsewhere")

    assert (run.done.returncode, run.outputs["exit-code"]) == (EXIT_VALID, str(EXIT_VALID))
    assert run.outputs["report"].startswith("elsewhere/nights/")
    assert "all valid" in run.summary.read_text(encoding="utf-8")


def test_a_plan_with_a_mistake_fails_the_job_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text("budget = 3", encoding="utf-8")
    run = Runner(tmp_path, plan="plan.toml")
    assert run.outputs == {"exit-code": "254"}
    assert "plan.toml" in run.done.stderr


def test_every_input_is_used_and_every_used_one_is_there() -> None:
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"inputs\.([a-z-]+)", text)) == set(ACTION["inputs"])


@pytest.mark.parametrize(("extras", "wanted"), [("", "/source"), ("kafka", "/source[kafka]")])
def test_what_is_installed(tmp_path: Path, extras: str, wanted: str) -> None:
    """The script asks pip for the checkout of the action, with its constraints."""
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    script = ROOT / ".github" / "action" / "install"
    told = subprocess.run(
        [script],
        env={**environ, "SOURCE": "/source", "EXTRAS": extras},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.splitlines()[-1] == wanted
    assert "/source/constraints.txt" in told.stdout


# --------------------------------------------------------------------------- the page


def page(wanted: plan.Plan, *lines: dict[str, Any]) -> str:
    return to_markdown({**told_of(wanted, *lines), "folder": "/s/nights/x"})


def test_the_page_names_ways_to_fail_entries_and_seeded_bugs() -> None:
    told = page(
        PLAN,
        seed_line(1),
        bad(2, message="n1 and n2 lead | both"),
        CANARY,
        {"t": "spent", "entry": "sim:a", "s": 3540.0},
    )
    assert "### S1 election safety: sim:a" in told
    assert "n1 and n2 lead \\| both" in told
    assert "| sim:a | 2 | 1 invalid, 1 valid | 59 min |" in told
    assert "| forgotten-vote | caught by S3 |" in told
    assert "### Also" not in told, "the failure is told once"


def test_the_page_counts_what_systems_are_known_to_do() -> None:
    finding = "docs/findings.md, a vote"
    told = page(PLAN, seed_line(1, known={finding: 3}), seed_line(2, known={finding: 1}), CANARY)
    assert f"| {finding} | 2 | 4 |" in told
    assert "known to do" not in page(PLAN, seed_line(1), CANARY)


def test_what_is_no_way_to_fail_is_told_too() -> None:
    told = page(PLAN, seed_line(1), {"t": "broke", "reason": "no *room*"}, CANARY)
    assert "### Also\n\n- the harness broke: no \\*room\\*" in told


def test_a_page_of_many_ways_to_fail_ends() -> None:
    ways = [bad(n, signature=f"S1: way {n}", message=f"way {n}") for n in range(20)]
    told = page(plan.Plan(budget="1h", sim=(entries.Sim(name="a"),)), *ways)
    assert told.count("### S1") == 12
    assert "And 8 more ways to fail." in told
