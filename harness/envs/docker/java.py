"""JVMs in containers: this host's Java and jars, mounted into them, or those of an image.

``JavaProgram.image`` says which of the two a run takes. A container that ends at once tries it, so
that a Java which cannot run is told before any node starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.agent.java import version_in
from harness.contracts.hosts import JavaProgram
from harness.envs.docker.config import mount
from harness.envs.docker.engine import Engine
from harness.envs.docker.image import FAKETIME
from harness.errors import EnvError
from harness.processes.java import java_folders

_IN_IMAGE: Final = "java"  # on the path of the image
_TRY: Final = """\
java=$1 library=$2 copy=$3; shift 3
"$java" -version || exit 1
for each; do [ -e "$each" ] || { echo "there is no $each"; exit 2; }; done
[ ! -e "$library" ] || cat "$library" >"$copy"
"""
_LACKS: Final = 2


@dataclass(frozen=True, slots=True)
class JavaHere:
    """A program of the JVM as the run's containers have it."""

    program: JavaProgram

    @property
    def mounts(self) -> list[Path]:
        """Folders and files of this host that containers need, to be read only."""
        left_out = self.program.in_image if self.program.image else {}
        files = [path for path in self.program.files if path not in left_out]
        if self.program.image:
            return files
        return [*java_folders(self.program.java), *files, *self.program.archives]

    @property
    def java(self) -> str:
        """Tell where containers have their ``java``."""
        return _IN_IMAGE if self.program.image else str(self.program.java)

    def translate(self, part: str) -> str:
        """Tell what a part of a command line is in a container."""
        if not self.program.image:
            return part
        if part == str(self.program.java):
            return _IN_IMAGE
        for path, there in self.program.in_image.items():
            part = part.replace(str(path), there)
        return part

    def check(
        self,
        engine: Engine,
        name: str,
        image: str,
        labels: dict[str, str],
        library: Path,
    ) -> None:
        """Try it in a container, and take libfaketime out of the image, where that has it.

        Args:
            engine: Runs the container.
            name: Of the container; whoever calls removes it.
            image: That nodes run in.
            labels: Of all that is the run's.
            library: Is made where the image has libfaketime; its folder is there.

        Raises:
            EnvError: Java does not run in the image, is too old, or the image lacks something.
        """
        read_only = [mount(path, read_only=True) for path in self.mounts]
        wanted = self.program.image_has if self.program.image else ()
        config = {
            "Image": image,
            "Entrypoint": ["sh", "-c", _TRY, "sh"],
            "Cmd": [self.java, FAKETIME, str(library), *wanted],
            "User": "0",
            "Labels": labels,
            "HostConfig": {
                "NetworkMode": "none",
                "CapDrop": ["ALL"],
                "CapAdd": ["DAC_OVERRIDE"],  # the copy goes into a folder of whoever runs krucible
                "LogConfig": {"Type": "json-file"},
                "Mounts": [*read_only, mount(library.parent)],
            },
        }
        code, said = engine.run_to_end(name, config)
        if code == _LACKS:
            raise EnvError(f"image {image}: {said.splitlines()[-1]}: is it of another release?")
        version = None if code else version_in(said)
        if version is None:
            raise EnvError(f"no Java runs in image {image}: {said[-300:] or code}; {self._advice}")
        if version < self.program.version_min:
            least = self.program.version_min
            raise EnvError(f"image {image} has Java {version}: want {least} or newer")

    @property
    def _advice(self) -> str:
        if self.program.image:
            return "want an image with java on its path"
        return (
            f"{self.program.java} of this host is mounted into it, which takes a C library as new "
            f"as this host's: build on another base (KRUCIBLE_BASE_IMAGE), or name an image that "
            f"has Java and the program"
        )
