"""Works out what a controller answers to requests about ACLs, quotas, SCRAM and delegation tokens.

Our controller does not serve these, so what is due is written down here, from the proposals. A rule
says what is wrong with one answer, and with the records that came with it.
Source: KIP-140 (ACLs), KIP-546 (quotas), KIP-554 (SCRAM), KIP-48 and KIP-900 (delegation tokens).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from math import isfinite
from typing import Any, Final
from uuid import UUID

import msgspec

from node.controller.errors import ApiError
from node.metadata.fold import acl_of, quota_entity
from node.metadata.image import MetadataImage
from node.metadata.records import MetadataRecord
from node.metadata.schemas import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    EntityData,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from node.metadata.state import AclState, QuotaEntity, TokenState
from node.wire.api import ApiKey

UNKNOWN, ANY, MATCH, LITERAL, PREFIXED = 0, 1, 2, 3, 4  # Kafka's numbers of patterns; of all
ALL_NAMES: Final = "*"  # an ACL for each resource of its kind
DIGESTS: Final = {1: hashlib.sha256, 2: hashlib.sha512}  # by SCRAM mechanism
ITERATIONS: Final = (4096, 16384)  # least and most of SCRAM's
SECRET: Final = "delegation.token.secret.key"  # noqa: S105 # the name of a setting
LIFE_MS: Final = ("delegation.token.max.lifetime.ms", 604_800_000)
RENEWAL_MS: Final = ("delegation.token.expiry.time.ms", 86_400_000)
TWICE: Final = "it names an entity twice, refuses it, and sets its quota"
OF_NOBODY: Final = "it makes an ACL of a principal that has no type"
PRINCIPAL: Final = "User:ANONYMOUS"  # who asks where nobody is asked who they are
_LONG_MAX: Final = (1 << 63) - 1
_INT_MAX: Final = (1 << 31) - 1
_FRACTION: Final = 1e-6  # a quota that is a whole number may be off by so much
_FRACTIONS: Final = _LONG_MAX + 1  # marks a quota that may be no whole number
_OF_CLIENTS: Final = {
    "producer_byte_rate": _LONG_MAX,
    "consumer_byte_rate": _LONG_MAX,
    "request_percentage": _FRACTIONS,
    "controller_mutation_rate": _FRACTIONS,
}
_OF_ADDRESSES: Final = {"connection_creation_rate": _INT_MAX}
_EPOCH: Final = datetime.fromtimestamp(0).astimezone()

_Users = dict[str, tuple[ApiError, list[MetadataRecord]]]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to an active controller, its answer, and the metadata by which it was decided.

    ``request`` and ``answer`` are kio's. ``written`` are the records that came with the answer.
    ``settings`` are the nodes'.
    """

    api: int
    image: MetadataImage
    request: Any
    answer: Any
    written: Sequence[MetadataRecord]
    settings: Mapping[str, str]


def judge(asked: Asked) -> list[str] | None:
    """Tell what is wrong with an answer; None: it cannot be told from what is known."""
    try:
        return [*_RULES[asked.api](asked)]
    except _OpenError:
        return None


class _OpenError(Exception):
    """Raised when releases differ in an answer, or nobody knows what it goes by."""


# ------------------------------------------------------------------------------- ACLs


def _create_acls(asked: Asked) -> Iterator[str]:
    existing = set(asked.image.acls.values())
    due: list[AclState] = []
    errors = []
    for each in asked.request.creations:
        acl = AclState(
            int(each.resource_type),
            each.resource_name,
            int(each.resource_pattern_type),
            each.principal,
            each.host,
            int(each.operation),
            int(each.permission_type),
        )
        errors.append(_of_acl(acl))
        if errors[-1] == ApiError.NONE and acl not in existing:
            existing.add(acl)
            due.append(acl)
    if any(":" not in each.principal for each in _made(asked)):
        yield OF_NOBODY
    yield from _codes([each.error_code for each in asked.answer.results], errors)
    yield from _records([acl_of(each) for each in _made(asked)], due, len(asked.written))
    ids = [each.id for each in _made(asked)]
    if len({*ids}) < len(ids) or not asked.image.acls.keys().isdisjoint(ids):
        yield f"the ids {', '.join(map(str, ids))} are not all new"


def _made(asked: Asked) -> list[AccessControlEntryRecord]:
    return [each for each in asked.written if isinstance(each, AccessControlEntryRecord)]


def _of_acl(acl: AclState) -> ApiError:
    """Tell why an ACL cannot be made."""
    if "/" in acl.host or not acl.host:
        raise _OpenError  # since 4.4 it is a range of addresses
    is_one = acl.resource_type > ANY and acl.operation > ANY and acl.permission_type > ANY
    is_whole = (
        acl.resource_name and ":" in acl.principal and acl.pattern_type in (LITERAL, PREFIXED)
    )
    return ApiError.NONE if is_one and is_whole else ApiError.INVALID_REQUEST


def _delete_acls(asked: Asked) -> Iterator[str]:
    gone: set[UUID] = set()
    filters, answers = asked.request.filters, asked.answer.filter_results
    yield from _codes([each.error_code for each in answers], [ApiError.NONE] * len(filters))
    for place, (filter_, told) in enumerate(zip(filters, answers, strict=False)):
        found = {id_: acl for id_, acl in asked.image.acls.items() if _matches(filter_, acl)}
        gone |= found.keys()
        named = [
            AclState(
                int(each.resource_type),
                each.resource_name,
                int(each.pattern_type),
                each.principal,
                each.host,
                int(each.operation),
                int(each.permission_type),
            )
            for each in told.matching_acls
        ]
        if told.error_code == ApiError.NONE and _sorted(named) != _sorted(found.values()):
            yield f"filter {place} matches {len(found)} ACL(s), and {len(named)} are named"
    written = [
        each.id for each in asked.written if isinstance(each, RemoveAccessControlEntryRecord)
    ]
    yield from _records(written, [*gone], len(asked.written))


def _matches(filter_: Any, acl: AclState) -> bool:
    """Tell whether an ACL is one of those that a filter of DeleteAcls means."""
    exact = (
        (filter_.resource_type_filter, acl.resource_type),
        (filter_.operation, acl.operation),
        (filter_.permission_type, acl.permission_type),
    )
    named = ((filter_.principal_filter, acl.principal), (filter_.host_filter, acl.host))
    return (
        all(int(wanted) in (ANY, has) for wanted, has in exact)
        and all(wanted in (None, has) for wanted, has in named)
        and _has_pattern(filter_.resource_name_filter, int(filter_.pattern_type_filter), acl)
    )


def _has_pattern(name: str | None, pattern: int, acl: AclState) -> bool:
    if pattern not in (ANY, MATCH, acl.pattern_type):
        return False
    if name is None:
        return True
    if pattern != MATCH:
        return name == acl.resource_name
    if acl.pattern_type == PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, ALL_NAMES)


# ----------------------------------------------------------------------------- quotas


def _alter_quotas(asked: Asked) -> Iterator[str]:
    entries = asked.request.entries
    due: list[tuple[QuotaEntity, str, float | None]] = []
    errors: dict[QuotaEntity, ApiError] = {}
    twice: set[QuotaEntity] = set()
    for entry in entries:
        entity = _entity(entry.entity)
        ops = {op.key: None if op.remove else float(op.value) for op in entry.ops}
        if entity in errors or len(ops) < len(entry.ops):  # an entity, or a key of it, twice
            errors[entity] = ApiError.INVALID_REQUEST
            twice.add(entity)
            due = [each for each in due if each[0] != entity]
            continue
        errors[entity] = _of_quotas(entity, ops)
        if errors[entity] == ApiError.NONE:
            has = asked.image.client_quotas.get(entity, {})
            due += [(entity, key, now) for key, now in ops.items() if has.get(key) != now]
    told = {_entity(each.entity): each.error_code for each in asked.answer.entries}
    if told.keys() != errors.keys():
        yield f"{len(told)} entities are answered, and {len(errors)} were asked about"
    yield from _codes([told.get(each) for each in errors], [*errors.values()])
    written = [
        (quota_entity(each), each.key, None if each.remove else each.value)
        for each in asked.written
        if isinstance(each, ClientQuotaRecord)
    ]
    if any(entity in twice for entity, _, _ in written):
        yield TWICE
    yield from _records(written, [] if asked.request.validate_only else due, len(asked.written))


def _entity(parts: Sequence[Any]) -> QuotaEntity:
    named = [
        EntityData(entity_type=each.entity_type, entity_name=each.entity_name) for each in parts
    ]
    return quota_entity(
        ClientQuotaRecord(version=0, entity=(*named,), key="", value=0.0, remove=False)
    )


def _of_quotas(entity: QuotaEntity, ops: Mapping[str, float | None]) -> ApiError:
    """Tell why an entity cannot have such quotas."""
    parts = dict(entity)
    is_client = parts.keys() <= {"user", "client-id"}
    if not parts or not (is_client or parts.keys() == {"ip"}) or "" in parts.values():
        return ApiError.INVALID_REQUEST
    if not is_client and not _is_address(parts["ip"]):
        raise _OpenError  # it is the name of a host, perhaps
    most = _OF_CLIENTS if is_client else _OF_ADDRESSES
    if all(value is None or _may_be(value, most.get(key)) for key, value in ops.items()):
        return ApiError.NONE
    return ApiError.INVALID_REQUEST


def _may_be(value: float, most: int | None) -> bool:
    if most is None or not isfinite(value) or value <= 0:
        return False
    return most == _FRACTIONS or (value <= most and value % 1.0 <= _FRACTION)


def _is_address(text: str | None) -> bool:
    try:
        return text is None or bool(ip_address(text))
    except ValueError:
        return False


# ------------------------------------------------------------------------------ SCRAM


def _alter_scram(asked: Asked) -> Iterator[str]:
    users: _Users = {}
    for each in asked.request.deletions:
        _once(each.name, users)
        users[each.name] = _of_deletion(each, asked.image)
    for each in asked.request.upsertions:
        _once(each.name, users)
        users[each.name] = _of_upsertion(each)
    told = {each.user: each.error_code for each in asked.answer.results}
    if told.keys() != users.keys():
        yield f"users {', '.join(told)} are answered, and {', '.join(users)} were asked about"
    yield from _codes([told.get(each) for each in users], [error for error, _ in users.values()])
    due = [record for _, records in users.values() for record in records]
    yield from _records([*asked.written], due, len(asked.written))


def _once(user: str, users: _Users) -> None:
    if user in users:  # Kafka refuses a user's second mechanism, too, which KIP-554 does not say
        raise _OpenError


def _of_deletion(asked: Any, image: MetadataImage) -> tuple[ApiError, list[MetadataRecord]]:
    name, mechanism = asked.name, int(asked.mechanism)
    if not name:
        return ApiError.UNACCEPTABLE_CREDENTIAL, []
    if mechanism not in DIGESTS:
        return ApiError.UNSUPPORTED_SASL_MECHANISM, []
    if (name, mechanism) not in image.scram:
        return ApiError.RESOURCE_NOT_FOUND, []
    gone = RemoveUserScramCredentialRecord(version=0, name=name, mechanism=mechanism)
    return ApiError.NONE, [gone]


def _of_upsertion(asked: Any) -> tuple[ApiError, list[MetadataRecord]]:
    """Give the credential that RFC 5802 makes of a salted password."""
    least, most = ITERATIONS
    if not asked.name:
        return ApiError.UNACCEPTABLE_CREDENTIAL, []
    if int(asked.mechanism) not in DIGESTS:
        return ApiError.UNSUPPORTED_SASL_MECHANISM, []
    if not least <= asked.iterations <= most:
        return ApiError.UNACCEPTABLE_CREDENTIAL, []
    digest, salted = DIGESTS[int(asked.mechanism)], asked.salted_password
    client_key = hmac.new(salted, b"Client Key", digest).digest()
    made = UserScramCredentialRecord(
        version=0,
        name=asked.name,
        mechanism=int(asked.mechanism),
        salt=asked.salt,
        stored_key=digest(client_key).digest(),
        server_key=hmac.new(salted, b"Server Key", digest).digest(),
        iterations=int(asked.iterations),
    )
    return ApiError.NONE, [made]


# ---------------------------------------------------------------------------- tokens


def _create_token(asked: Asked) -> Iterator[str]:
    settings, answer = asked.settings, asked.answer
    if SECRET not in settings:
        yield from _codes([answer.error_code], [ApiError.DELEGATION_TOKEN_AUTH_DISABLED])
        return
    renewers = [(each.principal_type, each.principal_name) for each in asked.request.renewers]
    due = ApiError.NONE
    if any(kind != "User" for kind, _ in renewers):
        due = ApiError.INVALID_PRINCIPAL_TYPE
    yield from _codes([answer.error_code], [due])
    if answer.error_code != ApiError.NONE:
        yield from _records([*asked.written], [], len(asked.written))
        return
    issued = _ms(answer.issue_timestamp)
    life, wanted = _number(settings, LIFE_MS), _span(asked.request.max_lifetime)
    most = issued + (min(life, wanted) if wanted > 0 else life)
    owner = PRINCIPAL
    if asked.request.owner_principal_name:
        owner = f"{asked.request.owner_principal_type}:{asked.request.owner_principal_name}"
    made = DelegationTokenRecord(
        version=0,
        owner=owner,
        requester=PRINCIPAL,
        renewers=tuple([f"{kind}:{name}" for kind, name in renewers]),
        issue_timestamp=issued,
        max_timestamp=most,
        expiration_timestamp=min(most, issued + _number(settings, RENEWAL_MS)),
        token_id=answer.token_id,
    )
    yield from _records([*asked.written], [made], len(asked.written))
    times = (_ms(answer.max_timestamp), _ms(answer.expiry_timestamp))
    if times != (made.max_timestamp, made.expiration_timestamp):
        yield f"the token ends at {times}, not {made.max_timestamp, made.expiration_timestamp}"
    if answer.hmac != _secret_of(answer.token_id, settings):
        yield "the token's HMAC is not that of its id"


def _renew_token(asked: Asked) -> Iterator[str]:
    yield from _of_known_token(asked, removes=False)


def _expire_token(asked: Asked) -> Iterator[str]:
    yield from _of_known_token(asked, removes=_span(asked.request.expiry_time_period) < 0)


def _of_known_token(asked: Asked, *, removes: bool) -> Iterator[str]:
    """Judge who asks about a token that there is; when a controller hears of it is not known."""
    settings, answer, written = asked.settings, asked.answer, asked.written
    if SECRET not in settings:
        yield from _codes([answer.error_code], [ApiError.DELEGATION_TOKEN_AUTH_DISABLED])
        return
    error = answer.error_code
    if error != ApiError.NONE:
        yield from _records([*written], [], len(written))
    found = _token(asked)
    if found is None:
        raise _OpenError  # it may have been one when the controller looked
    id_, token = found
    may = {ApiError.NONE, ApiError.DELEGATION_TOKEN_NOT_FOUND, ApiError.DELEGATION_TOKEN_EXPIRED}
    if removes:
        may.remove(ApiError.DELEGATION_TOKEN_EXPIRED)
    if PRINCIPAL not in (token.owner, *token.renewers):
        may = {ApiError.DELEGATION_TOKEN_OWNER_MISMATCH, ApiError.DELEGATION_TOKEN_NOT_FOUND}
        if asked.api == ApiKey.RENEW_DELEGATION_TOKEN:  # looks at the time first
            may.add(ApiError.DELEGATION_TOKEN_EXPIRED)
    if error not in may:
        yield f"the error is {error}, and {PRINCIPAL} asks about a token of {token.owner}"
    if error != ApiError.NONE:
        return
    if removes:
        due: MetadataRecord = RemoveDelegationTokenRecord(version=0, token_id=id_)
    else:
        until = _ms(answer.expiry_timestamp)
        if until > token.max_timestamp:
            yield f"the token ends at {until}, and may live until {token.max_timestamp}"
        due = DelegationTokenRecord(
            version=0,
            owner=token.owner,
            requester=token.requester,
            renewers=token.renewers,
            issue_timestamp=token.issue_timestamp,
            max_timestamp=token.max_timestamp,
            expiration_timestamp=until,
            token_id=id_,
        )
    yield from _records([*written], [due], len(written))


def _token(asked: Asked) -> tuple[str, TokenState] | None:
    """Find the token whose secret a client has given."""
    for id_, token in asked.image.delegation_tokens.items():
        if _secret_of(id_, asked.settings) == asked.request.hmac:
            return id_, token
    return None


def _secret_of(token_id: str, settings: Mapping[str, str]) -> bytes:
    return hmac.new(settings[SECRET].encode(), token_id.encode(), hashlib.sha512).digest()


def _number(settings: Mapping[str, str], named: tuple[str, int]) -> int:
    name, otherwise = named
    return int(settings.get(name, otherwise))


def _ms(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(milliseconds=1)


def _span(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)


# ---------------------------------------------------------------------------- common


def _codes(told: Sequence[int | None], due: Sequence[ApiError]) -> Iterator[str]:
    """Tell which rows of an answer have another error than they should."""
    if len(told) != len(due):
        yield f"{len(told)} rows are answered, where {len(due)} are due"
    for place, (code, error) in enumerate(zip(told, due, strict=False)):
        if code != error:
            yield f"the error of row {place} is {code}, where {int(error)} ({error.name}) is due"


def _records(written: Sequence[object], due: Sequence[object], count: int) -> Iterator[str]:
    """Tell how records differ from those that are due, in whatever order; ``count`` came."""
    if count != len(written):
        yield f"{count - len(written)} record(s) are of another kind than the request"
    told, expected = _sorted(written), _sorted(due)
    if told == expected:
        return
    for text in [each for each in told if each not in expected]:
        yield f"it writes {text}, which is not due"
    for text in [each for each in expected if each not in told]:
        yield f"{text} is due, and not written"
    if len(told) != len(expected):
        yield f"{len(told)} record(s) come with it, where {len(expected)} are due"


def _sorted(things: Iterable[object]) -> list[str]:
    return sorted([str(_plain(each)) for each in things])


def _plain(thing: object) -> object:
    """Give a record without its version, which the level of the metadata decides."""
    return msgspec.structs.replace(thing, version=0) if isinstance(thing, MetadataRecord) else thing


_RULES: Final[Mapping[int, Callable[[Asked], Iterator[str]]]] = {
    ApiKey.CREATE_ACLS: _create_acls,
    ApiKey.DELETE_ACLS: _delete_acls,
    ApiKey.ALTER_CLIENT_QUOTAS: _alter_quotas,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_scram,
    ApiKey.CREATE_DELEGATION_TOKEN: _create_token,
    ApiKey.RENEW_DELEGATION_TOKEN: _renew_token,
    ApiKey.EXPIRE_DELEGATION_TOKEN: _expire_token,
}
JUDGED: Final = frozenset(_RULES)
