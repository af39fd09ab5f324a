"""From an attach file and a look at its cluster to the options of a run; nothing is changed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from harness.contracts.environment import Address
from harness.envs.attached.file import AttachFile
from harness.errors import UsageError
from harness.kafka.survey import Place, Survey, survey
from harness.spec import RunSpec
from node.wire.network import Sockets

ATTACHED: Final = "attached"  # the environment, and the system
SYSTEM: Final = "attach.system"
CLUSTER: Final = "attach.cluster"
NODE: Final = "attach."  # and the node's name
PLAY: Final = "attach.play-brokers"
LOOK_S: Final = 3.0
TIMERS: Final = frozenset(  # what the cluster has them set to, for the checks that wait so long
    {"controller.quorum.fetch.timeout.ms", "controller.quorum.election.timeout.ms"}
)


def look(file: AttachFile) -> Survey:
    """Ask the cluster of an attach file who its nodes are.

    Raises:
        EnvError: It does not answer, or does not say.
    """
    found = asyncio.run(survey(file.controllers, file.brokers, Sockets(), timeout_s=LOOK_S))
    if strangers := sorted(file.nodes.keys() - {place.id for place in found.places}):
        raise UsageError(
            f"attach file {file.path}: node {strangers[0]}: the cluster {found.cluster_id} has no "
            f"node of that id; there are: {', '.join(str(place.id) for place in found.places)}"
        )
    return found


def settings_of(file: AttachFile, found: Survey) -> dict[str, str]:
    """Say in settings what the cluster is: stored with the run, and without any secret."""
    places = {f"{NODE}n{n}": str(place) for n, place in enumerate(found.places, start=1)}
    play = {PLAY: "true"} if file.play_brokers else {}
    return {SYSTEM: file.system, CLUSTER: found.cluster_id, **play, **places}


def attached(spec: RunSpec, file: AttachFile, found: Survey) -> RunSpec:
    """The options of a run on the cluster; its own settings are added to those that were given."""
    voters = len(found.voters)
    return replace(
        spec,
        system=ATTACHED,
        env=ATTACHED,
        voters=voters,
        observers=len(found.places) - voters,
        settings={**own_settings(spec.settings), **settings_of(file, found)},
    )


def again(spec: RunSpec, file: AttachFile, found: Survey) -> RunSpec:
    """The options of a stored run on the cluster of the file as it is now.

    Raises:
        UsageError: It has not as many nodes as the run's had, or is of another system.
    """
    now = attached(spec, file, found)
    then = (spec.voters, spec.observers, spec.settings.get(SYSTEM))
    if then != (now.voters, now.observers, now.settings[SYSTEM]):
        raise UsageError(
            f"the run was of {spec.settings.get(SYSTEM)} with {spec.voters} voters and "
            f"{spec.observers} other nodes; the cluster of {file.path} is {now.settings[SYSTEM]} "
            f"with {now.voters} and {now.observers}: attach one of the same shape"
        )
    return now


def own_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Those that were given, without what a look at a cluster has said."""
    return {key: value for key, value in settings.items() if not key.startswith(NODE)}


def places_of(spec: RunSpec) -> dict[str, Place]:
    """The places of a run's nodes, by name; raises UsageError when the settings do not say."""
    found: dict[str, Place] = {}
    for number in range(1, spec.voters + spec.observers + 1):
        name = f"n{number}"
        text = spec.settings.get(NODE + name)
        if text is None:
            raise UsageError(f"{NODE}{name} is missing: a run of this system wants --attach FILE")
        try:
            found[name] = Place.parse(text, voter=number <= spec.voters)
        except ValueError as error:
            raise UsageError(f"{NODE}{name}: {error}") from error
    return found


def check_settings(settings: Mapping[str, str]) -> None:
    """Raise UsageError for settings that nobody of a foreign cluster would obey."""
    for key in own_settings(settings):
        if key not in TIMERS:
            raise UsageError(
                f"--set {key}: a foreign cluster keeps its settings; what it has set of "
                f"{', '.join(sorted(TIMERS))} can be told"
            )


def addresses(places: Mapping[str, Place]) -> dict[str, Address]:
    """Give the address of each node."""
    return {name: place.address for name, place in places.items()}
