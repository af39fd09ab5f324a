"""Names of nodes: an unknown one is told with those that there are, a bad one before any set-up."""

from __future__ import annotations

import pytest

from harness.envs.nodes.names import check_known, check_names, known
from harness.errors import EnvError


def test_what_there_is_of_a_node_is_found_by_its_name() -> None:
    assert known({"n1": 1, "n2": 2}, "n2") == 2
    check_known(("n1", "n2"), "n2", "n1")


@pytest.mark.parametrize(
    ("nodes", "others"), [({"n1": 1, "n2": 2}, "n1, n2"), ({}, "none before setup")]
)
def test_an_unknown_name_is_told_with_those_that_there_are(
    nodes: dict[str, int], others: str
) -> None:
    complaint = f"no node is called 'n9'; there are: {others}"
    with pytest.raises(EnvError, match=complaint):
        known(nodes, "n9")
    with pytest.raises(EnvError, match=complaint):
        check_known(nodes, *nodes, "n9", "n10")


@pytest.mark.parametrize(
    ("nodes", "complaint"),
    [
        ([], "0 nodes: the paper environment takes 1 to 3"),
        (["a", "b", "c", "d"], "4 nodes: the paper environment takes 1 to 3"),
        (["a", "a"], "bad node name 'a'"),
        (["a-b"], "bad node name 'a-b'"),
        (["client"], "bad node name 'client'"),
    ],
)
def test_names_that_could_not_be_had_are_refused(nodes: list[str], complaint: str) -> None:
    check_names(["a", "b", "c"], "paper", 3, reserved=("client",))
    with pytest.raises(EnvError, match=complaint):
        check_names(nodes, "paper", 3, reserved=("client",))
