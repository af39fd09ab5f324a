"""Changes of Kafka's classes by a machine: each is one change, in a class that still loads."""

from __future__ import annotations

import subprocess
from collections import Counter
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from bench.kafka_mutation import OPERATORS, all_mutations, drawn, mutator
from bench.support.executed import jars_of
from harness.systems.kafka.distribution import KafkaDist

pytestmark = pytest.mark.slow
LOADED = 10
TRANSITION = "org/apache/kafka/controller/PartitionReassignmentReplicas"


def test_a_machine_changes_kafkas_classes_one_place_at_a_time(
    kafka: KafkaDist, tmp_path: Path
) -> None:
    everything = all_mutations(kafka)
    assert len({(each.name, each.number) for each in everything}) == len(everything) > 3_000
    assert set(Counter(each.operator for each in everything)) == set(OPERATORS)
    assert not [each for each in everything if each.method in ("toString", "hashCode", "equals")]
    one, again = (list(islice(drawn(everything, Random(5)), 50)) for _ in range(2))
    assert one == again
    assert len(set(one)) == len(one)
    jars = {jar.name: jar for jar in jars_of(kafka)}
    for place, mutation in enumerate(one[:LOADED]):
        folder = tmp_path / str(place)
        folder.mkdir()
        what = ("make", str(jars[mutation.jar]), mutation.name, str(mutation.number), str(folder))
        subprocess.run([*mutator(kafka), *what], check=True)
        (made,) = folder.rglob("*.class")
        assert made.relative_to(folder) == Path(f"{mutation.name}.class")
        path = (str(folder), *map(str, sorted(kafka.jars.glob("*.jar"))))
        done = subprocess.run(
            [*mutator(kafka), "verify", mutation.name, *path],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout == "false\n", (mutation, done.stderr)  # loaded, and not reached yet


def test_conditions_and_bounds_and_effects_are_found_where_they_are(kafka: KafkaDist) -> None:
    found = [each for each in all_mutations(kafka) if each.name == TRANSITION]
    by_method = Counter((each.method, each.operator) for each in found)
    assert by_method["isReassignmentInProgress", "condition"] == 2
    assert by_method["isReassignmentInProgress", "result"] == 3  # three forms of it
    assert by_method["maybeCompleteReassignment", "result"] >= 4  # of an Optional
