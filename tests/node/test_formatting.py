"""``krucible-node format``: what it makes for each kind of node, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from node.__main__ import EXIT_USAGE, main
from node.config import parse
from node.core.types import ReplicaKey
from node.driver.bootstrap import load_bootstrap
from node.formatting import Quorum, format_node
from node.log.disk import FileDisk
from node.log.layout import BOOTSTRAP_SNAPSHOT, uuid_from_text
from node.log.meta_properties import MetaProperties, load_meta_properties
from node.log.snapshots import SnapshotStore
from node.metadata.features import METADATA_VERSION, default_features

CLUSTER = "formatted"
META, BOOTSTRAP = "meta.properties", "bootstrap.checkpoint"
FIRST = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
IDS = {n: f"AAAAAAAAAAAAAAAAAAAA{c}A" for n, c in ((1, "Z"), (2, "a"), (3, "b"))}
INITIAL = ",".join(f"{n}@localhost:{9000 + n}:{d}" for n, d in IDS.items())
TIMESTAMP_MS = 1_700_000_000_000


def settings(folder: Path, **changed: str) -> dict[str, str]:
    """Of controller 1 of a dynamic quorum; an empty value takes a setting out."""
    base = {
        "node.id": "1",
        "process.roles": "controller",
        "controller.quorum.bootstrap.servers": "localhost:9001",
        "listeners": "CONTROLLER://localhost:9001",
        "log.dirs": str(folder / "data"),
    }
    changed = {key.replace("_", "."): value for key, value in changed.items()}
    return {key: value for key, value in (base | changed).items() if value}


STATIC = {
    "controller_quorum_bootstrap_servers": "",
    "controller_quorum_voters": "1@localhost:9001",
}
BROKER = {"process_roles": "broker", "listeners": "PLAINTEXT://localhost:9001"}


def files(folder: Path) -> set[str]:
    data = folder / "data"
    return {str(p.relative_to(data)) for p in data.rglob("*") if p.is_file()}


def run_format(folder: Path, *arguments: str, **changed: str) -> int:
    """The command; its exit code."""
    path = folder / "node.properties"
    path.write_text("".join(f"{k}={v}\n" for k, v in settings(folder, **changed).items()))
    with pytest.raises(SystemExit) as ended:
        main(["format", "--config", str(path), "--cluster-id", CLUSTER, *arguments])
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.parametrize(
    ("arguments", "changed", "made"),
    [
        (("--initial-controllers", INITIAL), {}, {META, BOOTSTRAP, FIRST}),
        (("--standalone",), {}, {META, BOOTSTRAP, FIRST}),
        (("--no-initial-controllers",), {}, {META, BOOTSTRAP}),
        ((), STATIC, {META, BOOTSTRAP}),
        ((), BROKER, {META, BOOTSTRAP}),
        (("--no-initial-controllers",), BROKER, {META, BOOTSTRAP}),
    ],
    ids=["initial", "standalone", "no-initial", "static", "broker", "broker-no-initial"],
)
def test_which_files_are_made(
    tmp_path: Path, arguments: tuple[str, ...], changed: dict[str, str], made: set[str]
) -> None:
    assert run_format(tmp_path, *arguments, **changed) == 0
    assert files(tmp_path) == made
    meta = load_meta_properties(FileDisk(), tmp_path / "data")
    assert meta is not None
    assert (meta.cluster_id, meta.node_id) == (CLUSTER, 1)


def test_initial_controllers_are_the_voters_of_the_first_snapshot(tmp_path: Path) -> None:
    assert run_format(tmp_path, "--initial-controllers", INITIAL) == 0
    with first_snapshot(tmp_path).open(BOOTSTRAP_SNAPSHOT) as reader:
        assert reader.kraft_version == 1
        voters = reader.voters
    assert voters is not None
    assert [v.key for v in voters] == [
        ReplicaKey(n, uuid_from_text(text)) for n, text in IDS.items()
    ]
    assert [str(v.endpoint) for v in voters] == [f"localhost:{9000 + n}" for n in IDS]
    assert {listener.name for v in voters for listener in v.listeners} == {"CONTROLLER"}
    meta = load_meta_properties(FileDisk(), tmp_path / "data")
    assert meta is not None
    assert meta.directory_id == uuid_from_text(IDS[1])


def test_a_standalone_controller_is_the_only_voter(tmp_path: Path) -> None:
    assert run_format(tmp_path, "--standalone", "--directory-id", IDS[2]) == 0
    with first_snapshot(tmp_path).open(BOOTSTRAP_SNAPSHOT) as reader:
        voters = reader.voters
    assert voters is not None
    assert [v.key for v in voters] == [ReplicaKey(1, uuid_from_text(IDS[2]))]


def first_snapshot(folder: Path) -> SnapshotStore:
    return SnapshotStore(FileDisk(), folder / "data" / "__cluster_metadata-0")


def test_features_are_the_defaults_but_for_those_named(tmp_path: Path) -> None:
    level = default_features()[METADATA_VERSION] - 1
    assert run_format(tmp_path, "--feature", f"metadata.version={level}", **STATIC) == 0
    assert load_bootstrap(FileDisk(), tmp_path / "data").features == default_features(level)


INVALID = "want id@host:port:directory-id"


@pytest.mark.parametrize(
    ("arguments", "changed", "refusal"),
    [
        ((), {}, "a controller of a dynamic quorum is formatted with --initial-controllers"),
        (("--standalone",), STATIC, "a quorum is static or dynamic, never both"),
        (("--initial-controllers", INITIAL), STATIC, "static or dynamic, never both"),
        (("--no-initial-controllers",), STATIC, "static or dynamic, never both"),
        (("--standalone",), BROKER, "--standalone: the node has no controller role"),
        (("--initial-controllers", INITIAL), BROKER, "the node has no controller role"),
        (("--initial-controllers", "1@localhost:9001"), {}, INVALID),
        (("--initial-controllers", ""), {}, INVALID),
        (("--initial-controllers", f"x@localhost:9001:{IDS[1]}"), {}, INVALID),
        (("--initial-controllers", f"1@localhost:0:{IDS[1]}"), {}, "want a port from 1 to 65535"),
        (("--initial-controllers", "1@localhost:9001:short"), {}, INVALID),
        (("--initial-controllers", f"{INITIAL},{INITIAL}"), {}, "stands twice"),
        (
            ("--initial-controllers", f"{INITIAL},4@localhost:9004:{IDS[1]}"),
            {},
            "a node id or a directory id stands twice",
        ),
        (
            ("--initial-controllers", f"2@localhost:9002:{IDS[2]}"),
            {},
            "names nodes [2], not this one, 1",
        ),
        (
            ("--initial-controllers", INITIAL, "--directory-id", IDS[2]),
            {},
            "--directory-id is not the one that --initial-controllers names",
        ),
        (
            ("--initial-controllers", INITIAL),
            {"listeners": "CONTROLLER://localhost:9009"},
            "none of its advertised controller listeners",
        ),
        (("--feature", "nothing=1", "--standalone"), {}, "--feature nothing=1: want one of"),
        (("--feature", "kraft.version=1", "--standalone"), {}, "want one of"),
        (("--feature", "metadata.version=999", "--standalone"), {}, "want a level from"),
        (("--feature", "metadata.version", "--standalone"), {}, "want NAME=LEVEL"),
        (("--directory-id", "short", "--standalone"), {}, "--directory-id: 'short'"),
        (("--directory-id", "A" * 22, "--standalone"), {}, "is a reserved id"),
        (("--initial-controllers", f"1@localhost:9001:{'A' * 22}"), {}, "is a reserved id"),
        (("--standalone", "--cluster-id", ""), {}, "--cluster-id '': want some text"),
        (("--standalone", "--cluster-id", "a\nnode.id=7"), {}, "--cluster-id 'a\\nnode.id=7'"),
    ],
)
def test_what_contradicts_itself_is_refused_in_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    changed: dict[str, str],
    refusal: str,
) -> None:
    assert run_format(tmp_path, *arguments, **changed) == EXIT_USAGE
    said = capsys.readouterr().err
    assert said.startswith("krucible-node: ")
    assert said.count("\n") == 1
    assert refusal in said
    assert not (tmp_path / "data").exists()


def test_two_ways_at_once_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_format(tmp_path, "--standalone", "--no-initial-controllers") == EXIT_USAGE
    assert "not allowed with argument" in capsys.readouterr().err


def test_a_formatted_directory_is_refused_and_stays_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_format(tmp_path, "--standalone") == 0
    before = (tmp_path / "data" / META).read_bytes()
    assert run_format(tmp_path, "--standalone") == EXIT_USAGE
    assert "is formatted already for node 1 of cluster 'formatted'" in capsys.readouterr().err
    assert (tmp_path / "data" / META).read_bytes() == before


def test_a_format_that_was_cut_short_is_done_anew(tmp_path: Path) -> None:
    """Whatever is there but the last file, which is the one that makes the directory the node's."""
    assert run_format(tmp_path, "--standalone", "--directory-id", IDS[1]) == 0
    (tmp_path / "data" / META).unlink()
    assert run_format(tmp_path, "--standalone", "--directory-id", IDS[2]) == 0
    with first_snapshot(tmp_path).open(BOOTSTRAP_SNAPSHOT) as reader:
        assert reader.voters is not None
        assert [v.key.directory_id for v in reader.voters] == [uuid_from_text(IDS[2])]


def formatted(folder: Path, timestamp_ms: int, **changed: str) -> UUID:
    config = parse(settings(folder, krucible_seed="5", **changed))
    meta: MetaProperties = format_node(
        FileDisk(),
        config,
        cluster_id=CLUSTER,
        quorum=Quorum(no_initial_controllers=True),
        timestamp_ms=timestamp_ms,
    )
    return meta.directory_id


def test_no_two_disks_have_one_id_whatever_the_seed(tmp_path: Path) -> None:
    """A replaced disk must not pass for the one that was lost, nor a node for another."""
    first = formatted(tmp_path / "a", TIMESTAMP_MS)
    assert formatted(tmp_path / "b", TIMESTAMP_MS) == first, "decided by seed, node and time"
    assert formatted(tmp_path / "c", TIMESTAMP_MS + 1) != first
    assert formatted(tmp_path / "d", TIMESTAMP_MS, node_id="2") != first


def test_the_help_says_what_each_option_is_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["format", "--help"])
    assert ended.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for part in (
        "--initial-controllers ID@HOST:PORT:DIRECTORY,...",
        "the first voters of a dynamic quorum, the same for all of them",
        "--standalone",
        "the only voter of a dynamic quorum, so far",
        "--no-initial-controllers",
        "an observer of a dynamic quorum, until it is added as a voter",
        "--feature NAME=LEVEL",
        "same for all nodes of a cluster",
    ):
        assert part in text
