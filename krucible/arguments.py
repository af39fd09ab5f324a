"""Arguments that several verbs have: their bounds, their help, and how their texts are read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.contracts.abilities import Kill, Pause, Roles
from harness.envs.attached.file import ATTACH_VARIABLE, AttachFile
from harness.envs.attached.file import load as load_attach
from harness.envs.ssh.hosts import HOSTS_VARIABLE
from harness.errors import UsageError
from harness.faults.choice import ALL, NONE
from harness.faults.schedule import PACES, told
from harness.faults.weather import WEATHERS
from harness.faults.weather import told as weather_told
from harness.registry import environments, mutant_names, unknown
from harness.spec import FAIR, RunSpec
from harness.store.origin import Origin

if TYPE_CHECKING:  # it brings the protocol: not for --help
    from harness.kafka.survey import Survey

SEED_MAX = 2**63 - 1
VOTERS_MAX = 7
OBSERVERS_MAX = 20
CONCURRENCY_MAX = 1_000
RATE_MAX_HZ = 100_000.0
TIME_LIMIT_MAX_S = 86_400.0
SETTLE_MAX_S = 3_600.0

NEMESIS_HELP = (
    "Faults: names and families, separated by commas; or all (except those that are "
    "played only if they are named), or none. Of all, or of a family, the run installs as many "
    "kinds as fit into its time. A kind that is named is always installed, after the main phase if "
    "there is no time for it before."
)
MOMENTS_MAX = 1_000
WEATHER_HELP = (
    "What the links between nodes are like in the whole run: "
    f"{'; '.join(map(weather_told, (FAIR, *WEATHERS)))}."
)
PACE_HELP = f"Pace of the faults, which is how long they last: {'; '.join(map(told, PACES))}."

KAFKA_VERSION = "krucible.kafka.version"  # the settings that the options stand for
KAFKA_HOME = "krucible.kafka.home"

StoreDir = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="DIR|s3://BUCKET/PREFIX",
        help="Store of runs: a folder, or s3://BUCKET/PREFIX.",
    ),
]
MetricsAt = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        metavar="[HOST:]PORT",
        help="Serve metrics to Prometheus at this address while the command works; port 0 takes "
        "any free port (docs/metrics.md).",
    ),
]
HostsFile = Annotated[
    Path | None,
    typer.Option(
        "--hosts", metavar="FILE", help="Hosts of --env ssh: [user@]host[:port] lines, or TOML."
    ),
]
Attach = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Test a cluster that somebody else started. FILE (TOML) says where it is and which "
        "faults it may be given (docs/attach.md); it replaces --system, --env, --voters and "
        "--observers.",
    ),
]
KafkaVersion = Annotated[
    str | None,
    typer.Option(
        metavar="VERSION",
        help="Release of Apache Kafka, as in 4.3.1 (default: 4.1.2); of --system kafka.",
    ),
]
KafkaHome = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Folder with a build of Apache Kafka (jars in lib or libs), for --system kafka.",
    ),
]
DEFAULT_STORE = "store"


def split(values: Sequence[str] | None) -> tuple[str, ...]:
    """The names in a repeatable option, each of whose values may have several by comma."""
    return tuple(name.strip() for each in values or () for name in each.split(",") if name.strip())


def parse_nemeses(text: str | None, system: Any) -> tuple[str, ...]:
    """The names in ``--nemesis``; raises UsageError."""
    if text is None:
        breakable = any(issubclass(system, ability) for ability in (Kill, Pause, Roles))
        return (ALL if breakable else NONE,)
    names = split([text])
    if not names:
        raise UsageError(f"--nemesis {text!r}: want names or families by comma, or all, or none")
    return names


def parse_settings(pairs: list[str]) -> dict[str, str]:
    """The pairs of ``--set``; raises UsageError."""
    settings: dict[str, str] = {}
    for pair in pairs:
        key, separator, value = (part.strip() for part in pair.partition("="))
        if not separator or not key:
            raise UsageError(f"--set {pair!r}: want KEY=VALUE")
        if key in settings:
            raise UsageError(f"--set {key}: given twice; leave one out")
        settings[key] = value
    return settings


def of_kafka(settings: dict[str, str], version: str | None, home: Path | None) -> dict[str, str]:
    """The settings with what ``--kafka-version`` and ``--kafka-home`` say; raises UsageError."""
    if version is not None and home is not None:
        raise UsageError("--kafka-version and --kafka-home: want one of them, not both")
    told = {KAFKA_VERSION: version, KAFKA_HOME: None if home is None else str(home.absolute())}
    for key, value in told.items():
        if value is None:
            continue
        if key in settings:
            raise UsageError(f"--set {key}: given twice; leave one out")
        settings = {**settings, key: value}
    return settings


def check_hosts(spec: RunSpec, hosts: Path | None) -> None:
    """Tell the environment its hosts file, and let it check it; raises UsageError."""
    check = environments.traits(spec.env).check_hosts
    if hosts is not None:
        if check is None:
            raise UsageError(f"--hosts: environment {spec.env!r} takes no hosts; use --env ssh")
        os.environ[HOSTS_VARIABLE] = str(hosts.absolute())
    if check is not None:
        check(spec)


def look_at(path: Path) -> tuple[AttachFile, Survey]:
    """Read an attach file, tell the environment of it, and ask its cluster who is there.

    Raises:
        UsageError: Something in the file is wrong.
        EnvError: The cluster does not answer.
    """
    from harness.systems.attached.planning import look  # noqa: PLC0415 - only for such runs

    os.environ[ATTACH_VARIABLE] = str(path.absolute())
    file = load_attach(path)
    return file, look(file)


def made_by(verb: str, spec: RunSpec, of: str | None = None) -> Origin:
    """The origin of a run that this command makes; call it after ``check_hosts``."""
    needed = environments.traits(spec.env).check_hosts is not None
    return Origin(verb, of, hosts=os.environ.get(HOSTS_VARIABLE) if needed else None)


def check_mutant(spec: RunSpec) -> None:
    """Raise UsageError for a mutant that the system does not have."""
    if spec.mutant is None:
        return
    names = mutant_names(spec.system)
    if not names:
        raise UsageError(f"--mutant {spec.mutant!r}: system {spec.system!r} has no mutants")
    if spec.mutant not in names:
        raise UsageError(unknown("mutant", spec.mutant, names))
