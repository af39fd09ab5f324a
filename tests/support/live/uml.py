"""Another Linux kernel as an ordinary process (user-mode Linux), on this host's own files.

It sees the host's files read-only; what is written there goes to a tmpfs that ends with it. Nothing
of the host's network is in it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

KERNEL = "linux.uml"
_MODULES = Path("/usr/lib/uml/modules")
_SBIN = ":/usr/sbin:/sbin"
_MEMORY = "700M"
_UNKNOWN_REGISTERS = "ptrace set fp regs failed"  # its last words on such a processor
_INIT = """\
#!/bin/sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmp /run
mkdir -p /run/out /run/tmp /run/lock /run/kernel/lib
mount -t hostfs none /run/out -o {out}
ln -s {modules} /run/kernel/lib/modules
printf '#!/bin/sh\\nexec {modprobe} -d /run/kernel "$@"\\n' >/run/kernel/modprobe
chmod +x /run/kernel/modprobe
echo /run/kernel/modprobe >/proc/sys/kernel/modprobe
ip link set lo up
export HOME=/run/tmp TMPDIR=/run/tmp PYTHONDONTWRITEBYTECODE=1
cd {cwd}
sh /run/out/job >/run/out/said 2>&1
echo $? >/run/out/code
sync
echo o >/proc/sysrq-trigger
sleep 9
"""


def needs_uml() -> None:
    """Skips, with the reason, where there is no such kernel."""
    if _which(KERNEL) is None or not _MODULES.is_dir():
        pytest.skip(f"no {KERNEL} here: apt-get install user-mode-linux")
    if _which("modprobe") is None:
        pytest.skip("no modprobe here: apt-get install kmod")


def run_in_uml(job: str, folder: Path, *, cwd: Path, timeout_s: float) -> tuple[int, str]:
    """Run a shell script there as root; its exit code, and what it said.

    ``/run/out`` there is ``folder``, the only place of the host that can be written.
    """
    (folder / "job").write_text(job)
    init = folder / "init"
    modprobe = _which("modprobe")
    init.write_text(_INIT.format(out=folder, modules=_MODULES, modprobe=modprobe, cwd=cwd))
    init.chmod(0o755)
    console = folder / "console"
    kernel = [
        str(_which(KERNEL)),
        *("root=/dev/root", "rootfstype=hostfs", "ro", f"mem={_MEMORY}", f"init={init}"),
        *("con=null", "con0=null,fd:1"),
    ]
    with console.open("wb") as out:
        started = subprocess.Popen(
            kernel,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            env={**os.environ, **_with_all_registers(folder)},
        )
        try:
            started.wait(timeout_s)
        finally:
            _kill(started)
    code = folder / "code"
    if not code.exists() and _UNKNOWN_REGISTERS in console.read_text():
        why = "the processor has registers that it does not know, and there is no C compiler"
        pytest.skip(f"{KERNEL} cannot run here: {why}")
    assert code.exists(), f"it did not come to its end: {_said(folder)}\n{console.read_text()}"
    return int(code.read_text()), _said(folder)


def _with_all_registers(folder: Path) -> dict[str, str]:
    """Preload what lets it run on a processor with registers that it does not know (AMX)."""
    compiler = _which("cc")
    if compiler is None or "amx_tile" not in Path("/proc/cpuinfo").read_text():
        return {}
    source, library = Path(__file__).with_name("uml_registers.c"), folder / "registers.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    return {"LD_PRELOAD": str(library)}


def _kill(started: subprocess.Popen[bytes]) -> None:
    """The kernel, and the processes of the host that it made."""
    if started.poll() is None:
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()


def _said(folder: Path) -> str:
    path = folder / "said"
    return path.read_text() if path.exists() else "(nothing)"


def _which(name: str) -> str | None:
    return shutil.which(name, path=os.environ.get("PATH", "") + _SBIN)


def shell(argv: Sequence[str], **variables: str) -> str:
    """A line of a job."""
    return shlex.join(["env", *(f"{k}={v}" for k, v in variables.items()), *argv]) + "\n"
