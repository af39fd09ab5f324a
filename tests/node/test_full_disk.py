"""A disk that fills up in the middle of a run: it ends, and is judged and reported all the same."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from harness.errors import EnvError
from harness.store.ballast import SIZE_BYTES, Ballast
from tests.support.commands.process import COMMAND, environ

OWN_MOUNTS = ("unshare", "--user", "--map-root-user", "--mount")
# A small disk of its own for the store; what is on it at the end is copied to where it can be seen.
SCRIPT = """
mount -t tmpfs -o size="$1"k tmpfs "$2" || exit 99
shift
folder=$1; shift
"$@"
code=$?
cp -r "$folder"/. "$folder.seen"
exit $code
"""


def small_disk(kilobytes: int, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command while ``folder`` is so small; its files are in ``<folder>.seen`` then."""
    folder.mkdir()
    try:
        subprocess.run([*OWN_MOUNTS, "mount", "-t", "tmpfs", "t", folder], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"this host lets nobody mount anything: {error}")
    return subprocess.run(
        [*OWN_MOUNTS, "sh", "-c", SCRIPT, "sh", str(kilobytes), str(folder), *command],
        env=environ(folder.parent / "state"),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
def test_a_disk_that_fills_up_leaves_a_history_and_a_report(tmp_path: Path) -> None:
    store = tmp_path / "store"
    options = ["--nemesis", "none", "--time-limit", "30", "--rate", "400", "--store", str(store)]
    done = small_disk(5 * 1024, store, *COMMAND, "run", *options)
    explain = f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    assert done.returncode == 255, explain
    assert "No space left on device" in done.stdout + done.stderr, explain
    (run_dir,) = [path.parent for path in (tmp_path / "store.seen").rglob("spec.json")]
    assert (run_dir / "report.html").stat().st_size > 10_000
    results = json.loads((run_dir / "results.json").read_text())
    assert any("No space left" in reason for reason in results["harness_reasons"])
    assert results["anomalies"] == [], "nodes that die of our full disk are not to blame"
    assert (run_dir / "history.jsonl").stat().st_size > 10_000
    assert not (run_dir / ".ballast").exists()


def test_room_is_taken_and_given_back(tmp_path: Path) -> None:
    ballast = Ballast(tmp_path)
    (file,) = tmp_path.iterdir()
    assert file.stat().st_blocks * 512 >= SIZE_BYTES, "really taken, no sparse file"
    ballast.drop()
    ballast.drop()
    assert list(tmp_path.iterdir()) == []


def test_a_disk_without_room_is_no_place_for_a_run(tmp_path: Path) -> None:
    program = "import sys; from pathlib import Path; from harness.store.ballast import Ballast; "
    program += "Ballast(Path(sys.argv[1]))"
    folder = tmp_path / "small"
    done = small_disk(512, folder, COMMAND[0], "-c", program, str(folder))
    assert done.returncode == 1
    assert f"{EnvError.__name__}: the disk of {folder} has no room for a run" in done.stderr
    assert "--store DIR" in done.stderr
    assert list((tmp_path / "small.seen").iterdir()) == []
