"""``security``: clients change ACLs, quotas, passwords (SCRAM) and delegation tokens.

Now and then they ask for what must be refused. Clients read nothing. Checkers judge the answers
(C17), the committed log, the images and snapshots that nodes make of it (C8), the memory of
controllers (C16), and that no token comes back (C11).
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from datetime import timedelta
from random import Random
from typing import Any, Final

from kio.schema.alter_client_quotas.v1.request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from kio.schema.alter_user_scram_credentials.v0.request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kio.schema.create_acls.v3.request import AclCreation, CreateAclsRequest
from kio.schema.create_delegation_token.v3.request import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from kio.schema.delete_acls.v3.request import DeleteAclsFilter, DeleteAclsRequest
from kio.schema.expire_delegation_token.v2.request import ExpireDelegationTokenRequest
from kio.schema.renew_delegation_token.v2.request import RenewDelegationTokenRequest
from kio.static.primitive import f64, i8, i32, i64Timedelta

from harness.contracts.clients import Client, Outcome
from harness.contracts.system import System
from harness.contracts.traits import WorkloadTraits
from harness.contracts.workload import Workload
from harness.generators.generator import Draft, each_thread, mix
from harness.history.ops import Op
from harness.kafka.route import Cluster, Route, cluster_of, deadline_s, no_error, request, the_row
from harness.registry import workloads
from harness.spec import SIM, RunSpec
from node.wire.network import Caller
from workloads.common.departures import Drawn

USERS: Final = 4
KINDS: Final = (2, 3, 4)  # of resources: topics, groups, the cluster
CLUSTER_KIND, CLUSTER_NAME = 4, "kafka-cluster"
ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4  # patterns; 1 is any operation and permission, too
OPERATIONS: Final = (3, 4, 8)  # read, write, describe
ALLOW, DENY = 3, 2
QUOTAS: Final = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
MECHANISMS: Final = (1, 2)  # SCRAM-SHA-256, SCRAM-SHA-512
ITERATIONS: Final = (4096, 16_384)  # the least and the most that Kafka takes
RARELY: Final = 2048  # quotas is set twice in one request, which Kafka is known to get wrong
SENSELESS: Final = 8  # of so many requests one asks for what must be refused
# Whom, what and how much must be refused.
NO_QUOTAS: Final[tuple[tuple[dict[str, str | None], str, float], ...]] = (
    ({}, QUOTAS[0], 1.0),
    ({"user": ""}, QUOTAS[0], 1.0),
    ({"group": "g"}, QUOTAS[0], 1.0),
    ({"ip": None, "user": "u0"}, "connection_creation_rate", 1.0),
    ({"ip": None}, QUOTAS[0], 1.0),
    ({"user": "u0"}, "connection_creation_rate", 1.0),
    ({"user": "u0"}, QUOTAS[0], 0.0),
    ({"user": "u0"}, QUOTAS[0], -1.0),
    ({"user": "u0"}, QUOTAS[1], 1.5),
    ({"ip": None}, "connection_creation_rate", 2.0**31),
)
NO_PASSWORDS: Final = (  # name, mechanism and iterations that must be refused
    ("", 1, ITERATIONS[0]),
    ("u0", 3, ITERATIONS[0]),
    ("u1", 1, ITERATIONS[0] - 1),
    ("u1", 2, ITERATIONS[1] + 1),
)
LIVES_MS: Final = (2000, 10_000, 60_000)  # of tokens
AT_ONCE: Final = -1  # a time until a token expires: it is taken back
OPS: Final = frozenset({"allow", "forbid", "quota", "password", "token", "renew", "expire"})
LAST: Final = {"of": {"user": "last"}, "name": QUOTAS[0], "value": 1}
SETTINGS: Final = {
    "delegation.token.secret.key": "of-a-simulated-cluster",
    "delegation.token.expiry.check.interval.ms": "2000",
}


# Without an authorizer nobody keeps ACLs; whoever has not said who they are may do everything.
AUTHORIZER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@workloads.register(
    "security",
    WorkloadTraits(settings=SETTINGS, of_processes=AUTHORIZER, systems=frozenset({"kafka"})),
)
def security(spec: RunSpec) -> Workload:
    """Change ACLs, quotas, passwords and tokens; all nodes must end with the same ones.

    Real nodes give tokens only to those who have said who they are, and here nobody has: so of
    these there are tokens in simulations alone.
    """

    def client(system: System) -> Client:
        return SecurityOps(cluster_of(system), [])

    drawn = drafts(spec)
    return Workload(
        client=client,
        generator=mix(*drawn, weights=tuple(drawn.values())),
        final_generator=each_thread(Draft("quota", LAST)),
        checkers=("consensus", "observers"),
    )


def drafts(spec: RunSpec) -> dict[Drawn, int]:
    """Return the functions that draw ops, and the weight of each."""
    drawn: dict[Drawn, int] = {allow: 4, forbid: 2, quota: 5, password: 3}
    return drawn | ({token: 4, renew: 3, expire: 3} if spec.env == SIM else {})


def allow(rng: Random, _: int) -> Draft:
    """Draw a new ACL."""
    kind = rng.choice(KINDS)
    name = CLUSTER_NAME if kind == CLUSTER_KIND else f"r{rng.randrange(USERS)}"
    entry = {
        "kind": kind,
        "name": name,
        "pattern": LITERAL if kind == CLUSTER_KIND else rng.choice((LITERAL, PREFIXED)),
        "user": rng.randrange(USERS),
        "operation": rng.choice(OPERATIONS),
        "permission": rng.choice((ALLOW, DENY)),
    }
    entries = [entry] * rng.choice((1, 1, 1, 2))
    if not rng.randrange(SENSELESS):
        entries.append({**entry, **rng.choice(({"name": ""}, {"user": None}))})
    return Draft("allow", {"entries": entries})


def forbid(rng: Random, _: int) -> Draft:
    """Draw who shall have no ACL any more: a user, or all in some resource."""
    user = rng.choice((None, *range(USERS)))
    name = rng.choice((None, f"r{rng.randrange(USERS)}")) if user is not None else CLUSTER_NAME
    pattern = rng.choice((ANY, ANY, MATCH, LITERAL, PREFIXED))
    return Draft("forbid", {"user": user, "name": name, "pattern": pattern})


def quota(rng: Random, _: int) -> Draft:
    """Draw a quota of a user, a client, both, an address or a default, or that it goes."""
    user, client = f"u{rng.randrange(USERS)}", f"c{rng.randrange(USERS)}"
    every: tuple[dict[str, str | None], ...] = (
        {"user": user},
        {"user": None},
        {"client-id": client},
        {"user": user, "client-id": None},
        {"user": None, "client-id": client},
        {"ip": rng.choice((None, "127.0.0.1"))},
    )
    parts = rng.choice(every)
    name = "connection_creation_rate" if "ip" in parts else rng.choice(QUOTAS)
    value: float | None = rng.choice((None, 10 + rng.randrange(90)))
    if not rng.randrange(SENSELESS):
        parts, name, value = rng.choice(NO_QUOTAS)
    asked = {"of": parts, "name": name, "value": value}
    if not rng.randrange(RARELY):
        asked["again"] = 10 + rng.randrange(90)  # the same in the same request
    return Draft("quota", asked)


def password(rng: Random, _: int) -> Draft:
    """Draw a user who gets another password, or has none any more."""
    name, mechanism = f"u{rng.randrange(USERS)}", rng.choice(MECHANISMS)
    salt = rng.choice((None, rng.randrange(1000)))
    if rng.randrange(SENSELESS):
        turns = rng.choice(ITERATIONS)
    else:
        (name, mechanism, turns), salt = rng.choice(NO_PASSWORDS), 0
    asked = {"user": name, "mechanism": mechanism, "iterations": turns, "salt": salt}
    return Draft("password", asked)


def token(rng: Random, _: int) -> Draft:
    """Draw how long a new token may live, whose it is, and who else may renew it."""
    asked: dict[str, Any] = {"life_ms": rng.choice(LIVES_MS), "owner": None, "renewers": []}
    if not rng.randrange(SENSELESS):
        asked["owner"] = f"u{rng.randrange(USERS)}"
        asked["renewers"] = rng.choice(([], [["User", "ANONYMOUS"]], [["Group", "g"]]))
    return Draft("token", asked)


def renew(rng: Random, _: int) -> Draft:
    """Draw which token lives longer, counted back from the newest one."""
    return Draft("renew", {"back": rng.randrange(3), "ms": rng.choice(LIVES_MS)})


def expire(rng: Random, _: int) -> Draft:
    """Draw which token is taken back, or shall live shorter."""
    return Draft("expire", {"back": rng.randrange(3), "ms": rng.choice((AT_ONCE, AT_ONCE, 1000))})


class SecurityOps:
    """Asks the controller; all clients share the secrets of the tokens that any of them got."""

    def __init__(self, cluster: Cluster, tokens: list[bytes], home: str = "") -> None:
        """Belong to a node; the newest token is the last one."""
        self._route = Route(cluster, home)
        self._tokens = tokens

    async def open(self, node: str) -> SecurityOps:
        """A client that finds the controller by way of ``node``."""
        return SecurityOps(self._route.cluster, self._tokens, node)

    async def close(self) -> None:
        """Drop all connections."""
        self._route.close()

    async def invoke(self, op: Op) -> Op:
        """Do one op."""
        asked: dict[str, Any] = op.value
        try:
            match op.f:
                case "allow":
                    await self._ask(_creations(asked["entries"]), _of_results)
                case "forbid":
                    await self._ask(_filter(**asked), _of_filters)
                case "quota":
                    await self._ask(_quota(**asked), _of_entries)
                case "password":
                    await self._ask(_password(**asked), _of_results)
                case "token":
                    made = await self._ask(_token(**asked), no_error)
                    self._tokens.append(bytes(made.hmac))
                case "renew":
                    await self._ask(_renewal(self._token(asked), asked["ms"]), no_error)
                case _:
                    await self._ask(_expiry(self._token(asked), asked["ms"]), no_error)
        except Outcome as outcome:
            return op.with_(type="fail" if outcome.definite else "info", error=outcome.error)
        return op.with_(type="ok")

    def _token(self, asked: dict[str, Any]) -> bytes:
        """Give the secret of a token; raises Outcome when there was none so far."""
        if not self._tokens:
            raise Outcome("no-token", definite=True)
        back: int = asked["back"]
        return self._tokens[-1 - back % len(self._tokens)]

    async def _ask(self, wanted: Any, judge: Callable[[Any], Any]) -> Any:
        async def attempt(connection: Caller) -> Any:
            return judge(await request(connection, wanted))

        asked: Awaitable[Any] = self._route.to_change(attempt, deadline_s())
        return await asked


def _of_results(answer: Any) -> None:
    for row in answer.results:
        no_error(row)


def _of_filters(answer: Any) -> None:
    the_row(answer.filter_results)


def _of_entries(answer: Any) -> None:
    the_row(answer.entries)


def _principal(user: int | None) -> str:
    return "nobody" if user is None else f"User:u{user}"


def _creations(entries: list[dict[str, Any]]) -> CreateAclsRequest:
    return CreateAclsRequest(
        creations=tuple(
            AclCreation(
                resource_type=i8(each["kind"]),
                resource_name=each["name"],
                resource_pattern_type=i8(each["pattern"]),
                principal=_principal(each["user"]),
                host="*",
                operation=i8(each["operation"]),
                permission_type=i8(each["permission"]),
            )
            for each in entries
        )
    )


def _filter(*, user: int | None, name: str | None, pattern: int) -> DeleteAclsRequest:
    return DeleteAclsRequest(
        filters=(
            DeleteAclsFilter(
                resource_type_filter=i8(ANY),
                resource_name_filter=name,
                pattern_type_filter=i8(pattern),
                principal_filter=None if user is None else _principal(user),
                host_filter=None,
                operation=i8(ANY),
                permission_type=i8(ANY),
            ),
        )
    )


def _quota(
    *, of: dict[str, str | None], name: str, value: float | None, again: float | None = None
) -> AlterClientQuotasRequest:
    parts = tuple([EntityData(entity_type=kind, entity_name=who) for kind, who in of.items()])
    values = (value,) if again is None else (value, again)
    ops = [OpData(key=name, value=f64(float(each or 0)), remove=each is None) for each in values]
    entries = tuple([EntryData(entity=parts, ops=(op,)) for op in ops])
    return AlterClientQuotasRequest(entries=entries, validate_only=False)


def _password(
    *, user: str, mechanism: int, iterations: int, salt: int | None
) -> AlterUserScramCredentialsRequest:
    if salt is None:
        gone = ScramCredentialDeletion(name=user, mechanism=i8(mechanism))
        return AlterUserScramCredentialsRequest(deletions=(gone,), upsertions=())
    new = ScramCredentialUpsertion(
        name=user,
        mechanism=i8(mechanism),
        iterations=i32(iterations),
        salt=str(salt).encode(),
        salted_password=hashlib.sha256(f"{user} {salt}".encode()).digest(),
    )
    return AlterUserScramCredentialsRequest(deletions=(), upsertions=(new,))


def _ms(duration: int) -> i64Timedelta:
    return i64Timedelta.parse(timedelta(milliseconds=duration))


def _token(
    *, life_ms: int, owner: str | None, renewers: list[list[str]]
) -> CreateDelegationTokenRequest:
    return CreateDelegationTokenRequest(
        owner_principal_type=None if owner is None else "User",
        owner_principal_name=owner,
        renewers=tuple(
            [CreatableRenewers(principal_type=kind, principal_name=who) for kind, who in renewers]
        ),
        max_lifetime=_ms(life_ms),
    )


def _renewal(hmac: bytes, period_ms: int) -> RenewDelegationTokenRequest:
    return RenewDelegationTokenRequest(hmac=hmac, renew_period=_ms(period_ms))


def _expiry(hmac: bytes, period_ms: int) -> ExpireDelegationTokenRequest:
    return ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period=_ms(period_ms))
