"""The Docker Engine of this host, request by request, with errors that say what to do.

The SDK is imported when an Engine is first asked for: it takes 0.2 s that no other run should pay.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import socket
import struct
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from harness.errors import EnvError

if TYPE_CHECKING:
    from docker import APIClient

P = ParamSpec("P")
T = TypeVar("T")

HOST_VARIABLE = "DOCKER_HOST"
_DEFAULT_HOST = "unix:///var/run/docker.sock"
_UNIX = "unix://"
_TIMEOUT_S = 30
_BUILD_TIMEOUT_S = 600
_REMOVAL_S = 10.0  # of a container or a network, that somebody else has begun
_POLL_S = 0.02
_NOT_FOUND, _CONFLICT = 404, 409
_FRAME = struct.Struct(">4xL")  # before each piece of output: its stream, and its length


class EngineError(EnvError):
    """Raised when the Engine does not do what it was asked; ``status`` is HTTP's, or None."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


def engine_host() -> str:
    """Give the address of the Docker Engine, from the environment variable or the default."""
    return os.environ.get(HOST_VARIABLE) or _DEFAULT_HOST


def knock(host: str, *, timeout_s: float = 5.0) -> None:
    """Raise OSError when nobody listens at a unix socket; the SDK would leak one of its own."""
    if not host.startswith(_UNIX):
        raise OSError(f"{host} is no unix socket of this host")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(timeout_s)
        sock.connect(host.removeprefix(_UNIX))


def _frames(answer: bytes) -> Iterator[bytes]:
    """Yield the output in each frame of an answer; raises OSError when the last is cut short."""
    position = 0
    while position < len(answer):
        end = position + _FRAME.size
        if end <= len(answer):
            position, end = end, end + _FRAME.unpack_from(answer, position)[0]
        if end > len(answer):
            raise OSError("its answer ended in the middle")
        yield answer[position:end]
        position = end


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """A blocking call off the event loop, which a cancellation waits for.

    Half a request would leave something that nobody knows of.
    """
    work = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait({work})
        raise


class Engine:
    """A connection to the Engine; thread-safe. Every method raises EngineError."""

    def __init__(self, client: APIClient, host: str) -> None:
        self._client = client
        self.host = host

    @classmethod
    def connect(cls, host: str | None = None) -> Engine:
        """The Engine at ``host``, else at ``$DOCKER_HOST``, else at the usual socket.

        Raises:
            EngineError: None answers there, or it is not on this host.
        """
        host = host or engine_host()
        if not host.startswith(_UNIX):
            raise EngineError(
                f"{HOST_VARIABLE} is {host}: the docker environment mounts the nodes' folders and "
                f"connects to their addresses, so the Engine must be on this host, at a unix socket"
            )
        try:
            knock(host)
        except OSError as error:
            raise EngineError(
                f"no Docker Engine answers at {host}: {error.strerror or error}; start it (as "
                f"root: `dockerd &`, or `systemctl start docker`), or set {HOST_VARIABLE}; "
                f"`krucible doctor` says more"
            ) from error
        import docker  # noqa: PLC0415 - see the top

        engine = cls(docker.APIClient(base_url=host, version="1.40", timeout=_TIMEOUT_S), host)
        with engine.asked("say its version"):
            engine.version = str(engine._client.version()["Version"])
        return engine

    version = "?"

    def close(self) -> None:
        """Close its connections. Idempotent."""
        self._client.close()

    @contextlib.contextmanager
    def asked(self, what: str) -> Iterator[None]:
        """Turn whatever goes wrong within into an EngineError that says what was asked."""
        import docker.errors  # noqa: PLC0415 - see the top
        import requests  # noqa: PLC0415

        try:
            yield
        except docker.errors.BuildError as error:
            raise EngineError(f"the Docker Engine cannot {what}: {error.msg}") from error
        except docker.errors.APIError as error:
            status = None if error.response is None else int(error.response.status_code)
            text = str(error.explanation or error).strip()
            raise EngineError(f"the Docker Engine cannot {what}: {text}", status) from error
        except (docker.errors.DockerException, requests.RequestException, OSError) as error:
            reason = str(error).partition("\n")[0]
            raise EngineError(
                f"the Docker Engine at {self.host} does not answer (asked to {what}): {reason}; "
                f"look whether dockerd runs, then `krucible heal`"
            ) from error

    def ask(self, what: str, request: Callable[[], T], *, fine: Collection[int] = ()) -> T | None:
        """Make a request; None when the Engine refuses with a status that is an answer too.

        Raises:
            EngineError: It refuses otherwise, or does not answer.
        """
        try:
            with self.asked(what):
                return request()
        except EngineError as error:
            if error.status not in fine:
                raise
            return None

    # ---- images

    def has_image(self, name: str) -> bool:
        """Tell whether the Engine has an image of that name."""
        images: Any = self._client
        found = self.ask(
            f"look at image {name}", lambda: images.inspect_image(name), fine=(_NOT_FOUND,)
        )
        return found is not None

    def pull(self, name: str) -> None:
        """Fetch an image from its registry."""
        repository, _, tag = name.rpartition(":") if ":" in name else (name, "", "latest")
        self.ask(f"pull image {name}", lambda: self._client.pull(repository, tag=tag))

    def build(
        self, context: bytes, *, tag: str, arguments: Mapping[str, str], labels: Mapping[str, str]
    ) -> None:
        """Build an image from a tar file with its Dockerfile; an error has the last lines."""
        said: list[str] = []
        with self.asked(f"build image {tag}"):
            steps = self._client.build(
                fileobj=io.BytesIO(context),
                custom_context=True,
                tag=tag,
                buildargs=dict(arguments),
                labels=dict(labels),
                rm=True,
                forcerm=True,
                decode=True,
                timeout=_BUILD_TIMEOUT_S,
            )
            for step in steps:
                said.append(str(step.get("stream", "")))
                if "error" in step:
                    tail = "".join(said)[-1500:].strip()
                    raise EngineError(f"cannot build image {tag}: {step['error']}\n{tail}")

    # ---- networks

    def create_network(
        self, name: str, *, subnet: str, gateway: str, labels: Mapping[str, str]
    ) -> None:
        """A bridge of its own, without a way out of this host."""
        ipam: Any = {"Driver": "default", "Config": [{"Subnet": subnet, "Gateway": gateway}]}
        self.ask(
            f"create network {name} with {subnet}",
            lambda: self._client.create_network(
                name,
                driver="bridge",
                check_duplicate=True,
                internal=True,
                labels=dict(labels),
                ipam=ipam,
            ),
        )

    def remove_network(self, name: str) -> bool:
        """Remove a network; False when it is not there.

        Its containers may be on their way out yet, removed by somebody else: that is waited for.
        """
        deadline = time.monotonic() + _REMOVAL_S
        while True:
            try:
                return self._did(
                    f"remove network {name}",
                    lambda: self._client.remove_network(name),
                    fine=(_NOT_FOUND,),
                )
            except EngineError as error:
                if "active endpoints" not in str(error) or time.monotonic() > deadline:
                    raise
            time.sleep(_POLL_S)

    def networks(self, label: str) -> list[dict[str, Any]]:
        """The networks with a label, as the Engine describes them."""
        with self.asked("list networks"):
            found: list[dict[str, Any]] = self._client.networks(filters={"label": label})
            return found

    # ---- containers

    def run(self, name: str, config: Mapping[str, Any]) -> None:
        """Create and start a container; ``config`` is what the Engine's API takes."""
        containers: Any = self._client
        self.ask(
            f"create container {name}",
            lambda: containers.create_container_from_config(dict(config), name),
        )
        self.ask(f"start container {name}", lambda: self._client.start(name))

    def run_to_end(self, name: str, config: Mapping[str, Any]) -> tuple[int, str]:
        """Run a container until it has ended; its exit code and what it said. It stays there."""
        self.run(name, config)
        with self.asked(f"wait for container {name}"):
            code = int(self._client.wait(name)["StatusCode"])
            said: bytes = self._client.logs(name)
        return code, said.decode(errors="replace").strip()

    def inspect(self, name: str) -> dict[str, Any] | None:
        """A container as the Engine describes it; None when it is not there."""
        found: dict[str, Any] | None = self.ask(
            f"look at container {name}",
            lambda: self._client.inspect_container(name),
            fine=(_NOT_FOUND,),
        )
        return found

    def runs(self, name: str) -> bool:
        """Tell whether a container exists and runs; one that is about to be removed does not."""
        found = self.inspect(name)
        return found is not None and found["State"]["Status"] in ("running", "paused")

    def containers(self, label: str) -> list[dict[str, Any]]:
        """The containers with a label, running or not, in short."""
        with self.asked("list containers"):
            found: list[dict[str, Any]] = self._client.containers(
                all=True, filters={"label": label}
            )
            return found

    def kill(self, name: str, signal_number: int) -> bool:
        """Signal a container's first process; False when it does not run."""
        return self._did(
            f"send signal {signal_number} to container {name}",
            lambda: self._client.kill(name, signal_number),
            fine=(_NOT_FOUND, _CONFLICT),
        )

    def pause(self, name: str) -> None:
        """Freeze all processes of a container."""
        self.ask(f"pause container {name}", lambda: self._client.pause(name))

    def unpause(self, name: str) -> bool:
        """Thaw them; False when there was nothing to thaw."""
        found = self.inspect(name)
        if found is None or not found["State"]["Paused"]:
            return False
        return self._did(
            f"unpause container {name}",
            lambda: self._client.unpause(name),
            fine=(_NOT_FOUND, _CONFLICT),
        )

    def remove(self, name: str) -> bool:
        """Kill a container, frozen or not, and remove it; False when somebody else did.

        Returns once it is gone, also when its removal was under way already (a conflict).
        """
        did = self._did(
            f"remove container {name}",
            lambda: self._client.remove_container(name, force=True, v=True),
            fine=(_NOT_FOUND, _CONFLICT),
        )
        deadline = time.monotonic() + _REMOVAL_S
        while not did and self.inspect(name) is not None:
            if time.monotonic() > deadline:
                raise EngineError(f"container {name} is not gone after {_REMOVAL_S:g} s")
            time.sleep(_POLL_S)
        return did

    def execute(self, name: str, argv: Sequence[str]) -> tuple[int, str]:
        """Run a command in a container, as root; its exit code and what it said."""
        with self.asked(f"run {argv[0]} in container {name}"):
            made = self._client.exec_create(name, list(argv), user="0")
            output = b"".join(_frames(self._start(made["Id"])))
            code = self._client.exec_inspect(made["Id"])["ExitCode"]
            return int(code), output.decode(errors="replace")

    def _start(self, command: str) -> bytes:
        """Start a command that was made, and read the Engine's answer until the command ends.

        The SDK's ``exec_start`` reads past the buffer that holds the header. Where the host is busy
        the output comes in the same packet as the header, and the SDK loses it.
        """
        import docker.errors  # noqa: PLC0415 - see the top
        import requests  # noqa: PLC0415

        url = f"{self._client.base_url}/v{self._client.api_version}/exec/{command}/start"
        wanted = {"Detach": False, "Tty": False}
        response = self._client.post(url, json=wanted, timeout=(_TIMEOUT_S, None))
        try:
            response.raise_for_status()
        except requests.HTTPError as error:
            raise docker.errors.create_api_error_from_http_exception(error) from error
        return bytes(response.content)

    def _did(self, what: str, request: Callable[[], Any], *, fine: Collection[int]) -> bool:
        """Send a request; return False when the Engine refused it with a status that is fine."""
        return self.ask(what, lambda: (request(),), fine=fine) is not None
