"""A whole run over ssh in a kernel that has netem; see CONTRIBUTING.md.

Outside: ``uml_run.py FOLDER OPTION...`` boots the kernel and runs itself in there. Inside it makes
three hosts, runs ``krucible run --env ssh`` with the options, and leaves the store in FOLDER.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.live.uml import run_in_uml
from tests.support.places import ROOT

OUT = Path("/run/out")
VOTERS = 3
_TIMEOUT_S = 1_800.0
_INSIDE = "--inside"
# Its one CPU is slow: let nobody be given up for lost only because the others have their turn. Its
# packet filter is the old one.
_KRUCIBLE = (
    "import harness.envs.ssh.remote as remote; remote.LOST_S = 90.0; remote._SILENCE_S = 200.0; "
    "from krucible.app import main; raise SystemExit(main())"
)
_FILTER = "mount --bind /usr/sbin/xtables-legacy-multi /usr/sbin/xtables-nft-multi"


def outside(folder: Path, options: list[str]) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    paths = str(ROOT)
    again = shlex.join([sys.executable, str(Path(__file__).resolve()), _INSIDE, *options])
    job = f"{_FILTER}\nexport PYTHONPATH={shlex.quote(paths)}\n{again}\n"
    code, said = run_in_uml(job, folder.resolve(), cwd=ROOT, timeout_s=_TIMEOUT_S)
    sys.stdout.write(said)
    return code


def inside(options: list[str]) -> int:
    from tests.support.ssh.hosts import sshd_hosts  # noqa: PLC0415 - wants root, which one is in there

    place = Path(os.environ["TMPDIR"]) / "hosts"
    place.mkdir()
    with sshd_hosts(place, count=VOTERS) as hosts:
        nodes = ["--voters", str(VOTERS), "--observers", "0"]
        argv = [sys.executable, "-c", _KRUCIBLE, "run", "--env", "ssh"]
        argv += ["--hosts", str(hosts.file(place)), *nodes, *options]
        code = subprocess.run(argv, cwd=place, check=False).returncode
        shutil.copytree(place / "store", OUT / "store")
        left = hosts.left(place)
    sys.stdout.write(f"left on the hosts: {left}\n")
    return code or bool(left)


if __name__ == "__main__":
    if sys.argv[1] == _INSIDE:
        sys.exit(inside(sys.argv[2:]))
    sys.exit(outside(Path(sys.argv[1]), sys.argv[2:]))
