"""Feature levels: those of Kafka 4.1, and what they allow."""

from __future__ import annotations

import pytest

from node.metadata import features as f


def test_a_new_cluster_has_the_levels_of_kafka_4_1() -> None:
    assert f.default_features() == {
        "metadata.version": 27,
        "transaction.version": 2,
        "group.version": 1,
        "eligible.leader.replicas.version": 1,
    }
    assert f.FEATURES[f.KRAFT_VERSION].default_level(f.LATEST_METADATA_VERSION) == 1
    assert f.default_features(f.IBP_3_7_IV4) == {"metadata.version": 19}
    assert f.FEATURES[f.KRAFT_VERSION].default_level(f.IBP_3_8_IV0) == 0


def test_levels_have_kafkas_names() -> None:
    assert f.level_name(f.IBP_4_1_IV1) == "4.1-IV1"
    assert f.level_of("3.3-IV3") == f.level_of("3.3") == 7
    assert f.level_of("4.0") == f.IBP_4_0_IV3
    levels = {name: level for name, level in vars(f).items() if name.startswith("IBP_")}
    for name, level in levels.items():
        assert name == "IBP_" + f.level_name(level).replace(".", "_").replace("-", "_")
    with pytest.raises(ValueError, match=r"metadata\.version 6 is not known: 7\.\.33"):
        f.level_name(6)
    with pytest.raises(ValueError, match=r"'2\.8' is not known"):
        f.level_of("2.8")


def test_a_log_without_a_level_is_of_the_lowest() -> None:
    assert f.metadata_version({}) == 7
    assert f.metadata_version({"metadata.version": 21, "group.version": 1}) == 21


@pytest.mark.parametrize(
    ("level", "register", "change", "partition"),
    [(7, 1, 1, 0), (8, 2, 1, 0), (16, 2, 1, 0), (17, 3, 2, 1), (22, 3, 2, 1), (23, 3, 2, 2),
     (29, 3, 2, 2), (30, 4, 3, 2)],
)  # fmt: skip
def test_the_level_says_which_versions_of_records_are_written(
    level: int, register: int, change: int, partition: int
) -> None:
    assert f.register_broker_version(level) == register
    assert f.broker_change_version(level) == change
    assert f.partition_version(level) == partition


@pytest.mark.parametrize(
    ("allowed", "since"),
    [
        (f.transactions_supported, 13),
        (f.controller_registration_supported, 15),
        (f.directories_supported, 17),
        (f.elr_supported, 23),
    ],
)
def test_what_records_may_hold_begins_at_a_level(allowed: object, since: int) -> None:
    assert callable(allowed)
    assert [level for level in range(7, 31) if allowed(level)] == list(range(since, 31))


def test_a_downgrade_loses_nothing_where_no_level_changed_the_records() -> None:
    assert not f.records_differ(27, 23)
    assert f.records_differ(27, 22)
    assert f.records_differ(7, 8)
    assert not f.records_differ(25, 25)
