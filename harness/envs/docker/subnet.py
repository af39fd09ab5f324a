"""A free range of addresses for a run's network, which nothing on this host uses."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from harness.envs.docker.engine import Engine, EngineError
from harness.errors import EnvError

POOL_VARIABLE = "KRUCIBLE_DOCKER_POOL"
_POOL = "10.213.0.0/16"
_PREFIX = 24  # of one run's network
_ROUTES = Path("/proc/net/route")
_TAKEN = ("overlap", "already in use", "conflicts with")  # in the Engine's own words


def pool() -> ipaddress.IPv4Network:
    """Give the range that networks are taken from; raises EnvError when the variable is no such."""
    text = os.environ.get(POOL_VARIABLE) or _POOL
    try:
        found = ipaddress.IPv4Network(text)
    except ValueError as error:
        raise EnvError(f"{POOL_VARIABLE} is {text!r}: {error}; want e.g. {_POOL}") from error
    if found.prefixlen > _PREFIX:
        raise EnvError(f"{POOL_VARIABLE} is {text}: want a network of /{_PREFIX} or larger")
    return found


def create_network(engine: Engine, name: str, labels: Mapping[str, str]) -> ipaddress.IPv4Network:
    """Create a network of the first range that is free; returns that, its first host is ours.

    Raises:
        EnvError: None is free, or the Engine cannot create any.
    """
    last: Exception | None = None
    for subnet in candidates():
        try:
            engine.create_network(name, subnet=str(subnet), gateway=str(subnet[1]), labels=labels)
        except EngineError as error:
            if not any(word in str(error) for word in _TAKEN):
                raise
            last = error  # somebody else's network, or a run that was a moment faster
        else:
            return subnet
    raise EnvError(
        f"no free network in {pool()} ({last or 'routes of this host cover it'}): `krucible heal` "
        f"removes those of dead runs; {POOL_VARIABLE} names another range"
    )


def candidates() -> Iterator[ipaddress.IPv4Network]:
    """Ranges of the pool that no route of this host overlaps."""
    taken = list(routes())
    for subnet in pool().subnets(new_prefix=_PREFIX):
        if not any(subnet.overlaps(route) for route in taken):
            yield subnet


def routes() -> Iterator[ipaddress.IPv4Network]:
    """The networks that this host has routes to, but for the default one."""
    for line in _ROUTES.read_text(encoding="ascii").splitlines()[1:]:
        fields = line.split()
        address, mask = (bytes.fromhex(fields[i])[::-1] for i in (1, 7))
        network = ipaddress.IPv4Network((address, str(ipaddress.IPv4Address(mask))))
        if network.prefixlen:
            yield network
