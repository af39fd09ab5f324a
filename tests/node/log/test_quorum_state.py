"""quorum-state and meta.properties: Kafka's own formats, and no guessing at damaged ones."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.core.types import ElectionState, ReplicaKey
from node.log.disk import FileDisk, read_file, replace_file
from node.log.layout import uuid_from_text, uuid_to_text
from node.log.memory_disk import MemoryDisk
from node.log.meta_properties import (
    MetaProperties,
    MetaPropertiesError,
    format_directory,
    load_meta_properties,
    random_id,
)
from node.log.quorum_state import ElectionStateStore, QuorumStateError

DIR = Path("/node")
DIRECTORY_ID = UUID("550e8400-e29b-41d4-a716-446655440000")
IDS = st.integers(0, 2**31 - 1)
STATES = st.builds(
    ElectionState,
    epoch=IDS,
    leader_id=st.none() | IDS,
    voted=st.none()
    | st.builds(ReplicaKey, IDS, st.none() | st.uuids().filter(lambda u: u.int != 0)),
)


def test_nothing_was_ever_saved() -> None:
    assert ElectionStateStore(MemoryDisk(), DIR).load() is None


@given(STATES)
def test_states_round_trip(state: ElectionState) -> None:
    store = ElectionStateStore(MemoryDisk(), DIR)
    store.save(state)
    assert store.load() == state


def test_the_file_is_kafkas(tmp_path: Path) -> None:
    store = ElectionStateStore(FileDisk(), tmp_path)
    store.save(ElectionState(7, None, ReplicaKey(2, DIRECTORY_ID)))
    path = tmp_path / "__cluster_metadata-0" / "quorum-state"
    assert path.read_text() == (
        '{"leaderId":-1,"leaderEpoch":7,"votedId":2,'
        '"votedDirectoryId":"VQ6EAOKbQdSnFkRmVUQAAA","data_version":1}'
    )
    assert sorted(p.name for p in path.parent.iterdir()) == ["quorum-state"]
    store.save(ElectionState(8, 3))
    assert json.loads(path.read_text()) == {
        "leaderId": 3,
        "leaderEpoch": 8,
        "votedId": -1,
        "votedDirectoryId": "AAAAAAAAAAAAAAAAAAAAAA",
        "data_version": 1,
    }


def test_a_version_0_file_of_a_static_quorum_is_read() -> None:
    disk = MemoryDisk()
    store = ElectionStateStore(disk, DIR)
    content = (
        '{"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":3,"appliedOffset":0,'
        '"currentVoters":[{"voterId":1}],"data_version":0}'
    )
    replace_file(disk, store.path, content.encode())
    assert store.load() == ElectionState(2, 1, ReplicaKey(3))


def test_while_the_quorum_is_static_the_file_is_of_version_0() -> None:
    disk = MemoryDisk()
    store = ElectionStateStore(disk, DIR)
    state = ElectionState(7, None, ReplicaKey(2, DIRECTORY_ID))
    store.save(state, kraft_version=0, voter_ids=(1, 2))
    assert read_file(disk, store.path) == (
        b'{"clusterId":"","leaderId":-1,"leaderEpoch":7,"votedId":2,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":1},{"voterId":2}],"data_version":0}'
    )
    assert store.load() == ElectionState(7, None, ReplicaKey(2)), "it has no directory ids"
    store.save(state, kraft_version=1)
    assert store.load() == state


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data_version": 2}, "unknown data_version 2"),
        ({"data_version": None}, "unknown data_version None"),
        ({"leaderEpoch": -1}, "leaderEpoch is -1"),
        ({"leaderEpoch": "5"}, "leaderEpoch is '5'"),
        ({"leaderEpoch": True}, "leaderEpoch is True"),
        ({"leaderId": -2}, "leaderId is -2"),
        ({"votedId": 1.5}, "votedId is 1.5"),
        ({"votedDirectoryId": "short"}, "short"),
        ({"votedDirectoryId": 5}, "want a string"),
        ({"votedId": -1}, "without votedId"),
    ],
)
def test_what_cannot_be_trusted_is_fatal(change: dict[str, object], message: str) -> None:
    disk = MemoryDisk()
    store = ElectionStateStore(disk, DIR)
    store.save(ElectionState(5, None, ReplicaKey(1, DIRECTORY_ID)))
    fields = {
        "leaderId": -1,
        "leaderEpoch": 5,
        "votedId": 1,
        "votedDirectoryId": uuid_to_text(DIRECTORY_ID),
        "data_version": 1,
    }
    replace_file(disk, store.path, json.dumps(fields | change).encode())
    with pytest.raises(QuorumStateError, match=message) as caught:
        store.load()
    assert "vote twice" in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b"null", b'{"leaderId":1}'])
def test_garbage_is_fatal(content: bytes) -> None:
    disk = MemoryDisk()
    store = ElectionStateStore(disk, DIR)
    replace_file(disk, store.path, content)
    with pytest.raises(QuorumStateError, match="quorum-state"):
        store.load()


# --------------------------------------------------------------------------- meta.properties


def test_a_formatted_directory_says_whose_it_is(tmp_path: Path) -> None:
    disk = FileDisk()
    folder = tmp_path / "new" / "dir"
    assert load_meta_properties(disk, folder) is None
    meta = format_directory(
        disk, folder, cluster_id="MkU3OEVBNTcwNTJENDM2Qg", node_id=3, directory_id=DIRECTORY_ID
    )
    assert load_meta_properties(disk, folder) == meta
    assert meta == MetaProperties("MkU3OEVBNTcwNTJENDM2Qg", 3, DIRECTORY_ID)
    lines = (folder / "meta.properties").read_text().splitlines()
    assert lines[1:] == [
        "cluster.id=MkU3OEVBNTcwNTJENDM2Qg",
        "directory.id=VQ6EAOKbQdSnFkRmVUQAAA",
        "node.id=3",
        "version=1",
    ]


def test_a_directory_is_formatted_once() -> None:
    disk = MemoryDisk()
    format_directory(disk, DIR, cluster_id="c", node_id=1, directory_id=DIRECTORY_ID)
    with pytest.raises(MetaPropertiesError, match="formatted already for node 1"):
        format_directory(disk, DIR, cluster_id="c", node_id=2, directory_id=DIRECTORY_ID)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no property 'version'"),
        ("version=0\n", "unknown version '0'"),
        ("version=1\nnode.id=x\n", "'x'"),
        ("version=1\nnode.id=-1\n", "node.id=-1"),
        ("version=1\nnode.id=1\n", "no property 'cluster.id'"),
        ("version=1\nnode.id=1\ncluster.id=c\ndirectory.id=??\n", "base64url"),
        ("version\n", "line 1"),
    ],
)
def test_a_damaged_meta_properties_is_refused(content: str, message: str) -> None:
    disk = MemoryDisk()
    replace_file(disk, DIR / "meta.properties", content.encode())
    with pytest.raises(MetaPropertiesError, match=message):
        load_meta_properties(disk, DIR)


@given(st.uuids())
def test_ids_round_trip_as_text(value: UUID) -> None:
    text = uuid_to_text(value)
    assert len(text) == 22
    assert uuid_from_text(text) == value


def test_random_ids_depend_on_the_seed_only_and_look_like_no_option() -> None:
    drawn = [random_id(Random(seed)) for seed in range(300)]
    assert drawn == [random_id(Random(seed)) for seed in range(300)]
    assert len(set(drawn)) == 300
    assert not any(uuid_to_text(value).startswith("-") for value in drawn)
