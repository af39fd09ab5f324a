"""Logging in on a host and finding a Python there; every refusal says what to do.

A host is known by its key in a known_hosts file. One that is not there is refused, unless the hosts
file says ``unknown_hosts = "accept"``; one whose key has changed is refused always.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import shlex
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.envs.ssh.hosts import SSH_PORT, Host
from harness.errors import EnvError

if TYPE_CHECKING:  # it takes a quarter of a second, which not every command of ours should
    import paramiko

CONNECT_TIMEOUT_S: Final = 10.0
PYTHON_MIN: Final = (3, 11)
NEEDED: Final = ("kio", "crc32c", "msgspec")  # what node/ imports, beside the standard library
_CANDIDATES = ("python3", "python3.14", "python3.13", "python3.12", "python3.11")
_ANSWER_MAX = 1 << 16
_LOOK = (  # any Python understands it
    "import sys, json\n"
    "lacks = []\n"
    "for name in {needed!r}:\n"
    "    try:\n"
    "        __import__(name)\n"
    "    except ImportError:\n"
    "        lacks.append(name)\n"
    "print(json.dumps([sys.executable, list(sys.version_info[:3]), lacks]))\n"
)


@dataclass(frozen=True, slots=True)
class Python:
    """A Python of a host."""

    path: str
    version: tuple[int, ...]
    lacks: tuple[str, ...]

    def __str__(self) -> str:
        version = ".".join(map(str, self.version))
        if self.version < PYTHON_MIN:
            return f"{self.path} is {version}, older than {'.'.join(map(str, PYTHON_MIN))}"
        return f"{self.path} ({version}) lacks {', '.join(self.lacks)}"

    @property
    def will_do(self) -> bool:
        """Tell whether a node can run on this Python: it is new enough, and lacks no module."""
        return self.version >= PYTHON_MIN and not self.lacks


def connect(host: Host) -> paramiko.SSHClient:
    """Log in; raises EnvError that says why not."""
    import paramiko  # noqa: PLC0415 - see the top

    # what it has to say is in its exceptions; without a handler it would say it to the terminal
    logging.getLogger("paramiko").addHandler(logging.NullHandler())
    client = paramiko.SSHClient()
    try:
        _trust(client, host)
        client.connect(
            host.host,
            host.port,
            username=host.user,
            key_filename=host.key,
            allow_agent=host.key is None,
            look_for_keys=host.key is None,
            timeout=CONNECT_TIMEOUT_S,
            banner_timeout=CONNECT_TIMEOUT_S,
            auth_timeout=CONNECT_TIMEOUT_S,
        )
    except (OSError, EOFError, paramiko.SSHException, ValueError) as error:
        client.close()
        raise EnvError(_why(host, error)) from error
    except BaseException:
        client.close()
        raise
    return client


def _trust(client: paramiko.SSHClient, host: Host) -> None:
    import paramiko  # noqa: PLC0415 - see the top

    class Refuse(paramiko.MissingHostKeyPolicy):
        """Refuses hosts whose key is not in the file."""

        def missing_host_key(
            self,
            client: paramiko.SSHClient,  # noqa: ARG002 - it is the one we know
            hostname: str,  # noqa: ARG002
            key: paramiko.PKey,
        ) -> None:
            raise EnvError(_unknown(host, key.get_name(), key.asbytes()))

    class Accept(paramiko.MissingHostKeyPolicy):
        """Anybody; for hosts that are made anew for each run. Nothing is written down."""

        def missing_host_key(
            self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey
        ) -> None:
            pass

    if host.known_hosts is not None:
        client.load_system_host_keys(host.known_hosts)
    else:
        client.load_system_host_keys()
    client.set_missing_host_key_policy(Accept() if host.accept_unknown else Refuse())


def _unknown(host: Host, kind: str, key: bytes) -> str:
    file = host.known_hosts or "~/.ssh/known_hosts"
    port = "" if host.port == SSH_PORT else f"-p {host.port} "
    return (
        f"host {host} is not in {file}, and its {kind} key has the fingerprint "
        f"{fingerprint(key)}: compare it with what `ssh-keygen -l` says on the host itself, then "
        f"`ssh-keyscan {port}{host.host} >> {file}`; or, for hosts that live no longer than a "
        f'run, unknown_hosts = "accept" in a .toml hosts file'
    )


def fingerprint(key: bytes) -> str:
    """Give a key's fingerprint as ssh-keygen prints it."""
    digest = base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")
    return f"SHA256:{digest}"


def _why(host: Host, error: Exception) -> str:
    import paramiko  # noqa: PLC0415 - see the top

    file = host.known_hosts or "~/.ssh/known_hosts"
    if isinstance(error, paramiko.BadHostKeyException):
        return (
            f"host {host} shows another key ({fingerprint(error.key.asbytes())}) than the one in "
            f"{file}: somebody may be in between; if it was installed anew, remove its line with "
            f"`ssh-keygen -R` and take the new key"
        )
    if isinstance(error, paramiko.PasswordRequiredException):
        return f"host {host}: the key {host.key} has a passphrase: `ssh-add` it and leave key out"
    if isinstance(error, paramiko.AuthenticationException):
        what = "any key of the agent or in ~/.ssh" if host.key is None else f"the key {host.key}"
        user = "your user name" if host.user is None else f"user {host.user}"
        return (
            f"host {host} does not accept {what} for {user}: put the public key into its "
            f"authorized_keys, or name user and key in the hosts file ({error})"
        )
    if isinstance(error, socket.gaierror):
        return f"host {host} has no address: {error.strerror}; look at the hosts file"
    if isinstance(error, OSError):
        return (
            f"no ssh server answers at {host.host}:{host.port}: {error.strerror or error}; start "
            "sshd there, or correct the hosts file"
        )
    return f"cannot log in on host {host}: {_text(error)}"


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__


def address_of(host: Host) -> str:
    """The IPv4 address of its node; raises EnvError."""
    name = host.address or host.host
    try:
        return str(socket.getaddrinfo(name, None, socket.AF_INET)[0][4][0])
    except OSError as error:
        raise EnvError(f"host {host}: {name} has no IPv4 address: {error}") from error


def find_python(client: paramiko.SSHClient, host: Host, needed: Sequence[str] = NEEDED) -> Python:
    """A Python there that has these modules; raises EnvError that says what the others lack."""
    names = _CANDIDATES if host.python is None else (host.python,)
    look = shlex.quote(_LOOK.format(needed=tuple(needed)))
    script = (
        f"cd /; for name in {shlex.join(names)}; do "
        f'found=$(command -v "$name") && "$found" -c {look} </dev/null; done; exit 0'
    )
    said = execute(client, host, script)
    found = _pythons(said)
    best = next((python for python in found if python.will_do), None)
    if best is not None:
        return best
    seen = "; ".join(map(str, found)) or f"there is none called {' or '.join(names)}"
    lacking = f", with {', '.join(needed)} (`python3 -m pip install {' '.join(needed)}` there)"
    raise EnvError(
        f"host {host} has no Python for a node: {seen}. It must be "
        f"{'.'.join(map(str, PYTHON_MIN))} or newer{lacking if needed else ''}; name one by "
        'python = "/path" in a .toml hosts file'
    )


def _pythons(said: str) -> list[Python]:
    found: dict[str, Python] = {}
    for line in said.splitlines():
        try:
            path, version, lacks = json.loads(line)
            python = Python(str(path), tuple(map(int, version)), tuple(map(str, lacks)))
        except (ValueError, TypeError):
            continue  # what a login shell says first
        found.setdefault(python.path, python)
    return list(found.values())


def execute(client: paramiko.SSHClient, host: Host, script: str) -> str:
    """Run a script of the shell to its end; returns its output, bounded. Raises EnvError."""
    import paramiko  # noqa: PLC0415 - see the top

    try:
        _, stdout, stderr = client.exec_command(f"sh -c {shlex.quote(script)}", timeout=20)
        said = stdout.read(_ANSWER_MAX).decode(errors="replace")
        code = stdout.channel.recv_exit_status()
        if code:
            error = stderr.read(_ANSWER_MAX).decode(errors="replace").strip()
            raise EnvError(f"host {host}: the shell failed with exit code {code}: {error or said}")
    except (OSError, EOFError, paramiko.SSHException) as error:
        raise EnvError(f"host {host} did not run a command: {_text(error)}") from error
    return said
