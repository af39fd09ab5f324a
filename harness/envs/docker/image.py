"""The image that nodes run in: put together from this very code, and built when it is not there.

Its tag is the digest of all that goes into it, so a changed node gets an image of its own. What
the node imports is copied from the environment that krucible runs in, which needs no network; a
base with another Python fetches it by itself (see docker/node.Dockerfile).
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import tarfile
from collections.abc import Iterator
from importlib import metadata, util
from pathlib import Path

from harness.envs.docker.engine import Engine, EngineError
from harness.errors import EnvError

IMAGE_VARIABLE = "KRUCIBLE_NODE_IMAGE"  # a ready image to use as it is
BASE_VARIABLE = "KRUCIBLE_BASE_IMAGE"  # what to build ours on
HOME_BASE = "krucible-base:bookworm"  # as docker/make-base makes it
PUBLIC_BASE = "python:3.11-slim"
LABEL = "krucible.image"
FAKETIME = "/opt/libfaketime.so"  # in the image; docker/node.Dockerfile puts it there
_NEEDED = ("kio", "crc32c", "msgspec")  # what node/ imports, beside the standard library
_DOCKERFILE = "docker/node.Dockerfile"
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def ensure(engine: Engine) -> str:
    """The name of the nodes' image; builds it, which takes some seconds, when it is not there.

    Raises:
        EngineError: It cannot be built, or the image that was asked for does not exist.
    """
    if chosen := os.environ.get(IMAGE_VARIABLE):
        if not engine.has_image(chosen):
            raise EngineError(
                f"{IMAGE_VARIABLE} is {chosen}, and the Engine has no such image: pull or build "
                f"it, or unset {IMAGE_VARIABLE} to have one built"
            )
        return chosen
    base = base_image(engine)
    context = make_context()
    tag = f"krucible-node:{_digest(base.encode(), context)}"
    if not engine.has_image(tag):
        labels = {LABEL: "node"}
        engine.build(context, tag=tag, arguments={"BASE_IMAGE": base}, labels=labels)
    return tag


def base_image(engine: Engine) -> str:
    """The base that is there, pulled if need be."""
    chosen = os.environ.get(BASE_VARIABLE)
    names = (chosen,) if chosen else (HOME_BASE, PUBLIC_BASE)
    for name in names:
        if engine.has_image(name):
            return name
    try:
        engine.pull(names[-1])
    except EngineError as error:
        raise EngineError(
            f"the Engine lacks the base image {' and '.join(names)}, and cannot pull {names[-1]}: "
            f"{error}; without a registry run docker/make-base (as root), or set {BASE_VARIABLE}"
        ) from error
    return names[-1]


def make_context() -> bytes:
    """The build context as a tar file, the same bytes for the same content."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        _add(tar, "Dockerfile", dockerfile())
        wanted = sorted(closure(_NEEDED))
        _add(tar, "requirements.txt", "".join(f"{n}=={v}\n" for n, v in wanted).encode())
        for name, _ in wanted:
            for path, content in _files_of(name):
                _add(tar, f"site/{path}", content)
        for path, content in _node_files():
            _add(tar, f"app/node/{path}", content)
    return buffer.getvalue()


def dockerfile() -> bytes:
    """Read docker/node.Dockerfile; raises EnvError when krucible was installed without it."""
    path = Path(__file__).parents[3] / _DOCKERFILE
    try:
        return path.read_bytes()
    except OSError as error:
        raise EnvError(
            f"cannot read {path}: {error.strerror}; the docker environment works from a checkout "
            f"of krucible, or with {IMAGE_VARIABLE} set to an image made there"
        ) from error


def closure(names: tuple[str, ...]) -> set[tuple[str, str]]:
    """Installed distributions with all they require: (name, version)."""
    found: dict[str, str] = {}
    left = list(names)
    while left:
        name = left.pop()
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # required of other Pythons only
        if name not in found:
            found[name] = distribution.version
            for requirement in distribution.requires or ():
                match = _NAME.match(requirement)
                if match and "extra ==" not in requirement:
                    left.append(match[0].lower())
    return set(found.items())


def _files_of(name: str) -> Iterator[tuple[str, bytes]]:
    """The files of an installed distribution, by their place in site-packages."""
    for file in sorted(metadata.files(name) or (), key=str):
        path = Path(str(file.locate()))
        if ".." not in file.parts and "__pycache__" not in file.parts and path.is_file():
            yield str(file), path.read_bytes()


def _node_files() -> Iterator[tuple[str, bytes]]:
    """The files of our own package ``node``, without what tools keep beside them."""
    spec = util.find_spec("node")
    if spec is None or spec.origin is None:
        raise EnvError("the package `node` is not installed beside krucible")
    root = Path(spec.origin).parent
    for path in sorted(root.rglob("*")):
        place = path.relative_to(root)
        if path.is_file() and not any(p == "__pycache__" or p.startswith(".") for p in place.parts):
            yield place.as_posix(), path.read_bytes()


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)  # owner, mode and time are the same for everybody
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))


def _digest(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:12]
