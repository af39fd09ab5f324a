"""C17 of requests that our controller does not serve: ACLs, quotas, SCRAM, delegation tokens."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest
from kio.schema.errors import ErrorCode

from checkers.invariants.security_answers import ITERATIONS, OF_NOBODY, SECRET, TWICE, Asked, judge
from node.metadata.fold import apply_record
from node.metadata.image import MetadataImage
from node.metadata.records import MetadataRecord
from node.metadata.schemas import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    EntityData,
    NoOpRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from node.wire.api import ApiKey
from node.wire.payloads import api_schema
from node.wire.structs import build

VERSIONS = {
    ApiKey.CREATE_ACLS: 3,
    ApiKey.DELETE_ACLS: 3,
    ApiKey.ALTER_CLIENT_QUOTAS: 1,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: 0,
    ApiKey.CREATE_DELEGATION_TOKEN: 3,
    ApiKey.RENEW_DELEGATION_TOKEN: 2,
    ApiKey.EXPIRE_DELEGATION_TOKEN: 2,
}
ID, OTHER, ME = UUID(int=1), UUID(int=2), "User:ANONYMOUS"
KEY, NOW = "k", 1_700_000_000_000
SETTINGS = {SECRET: KEY, "delegation.token.expiry.time.ms": "5000"}
EPOCH = datetime.fromtimestamp(0).astimezone()


def request(api: ApiKey, **fields: Any) -> Any:
    return build(api_schema(api, VERSIONS[api]).request, **fields)


def asked_part(api: ApiKey, struct: str, **fields: Any) -> Any:
    return build(api_schema(api, VERSIONS[api]).request, struct, **fields)


def answer(api: ApiKey, **fields: Any) -> Any:
    return build(api_schema(api, VERSIONS[api]).response, throttle_time=timedelta(0), **fields)


def row(api: ApiKey, struct: str, code: int = 0, **fields: Any) -> Any:
    told = {"error_code": ErrorCode(code), "error_message": None, **fields}
    return build(api_schema(api, VERSIONS[api]).response, struct, **told)


def wrong(
    api: ApiKey,
    asked: Any,
    told: Any,
    written: list[MetadataRecord],
    *image: MetadataRecord,
    settings: dict[str, str] = SETTINGS,
) -> list[str] | None:
    metadata = MetadataImage()
    for offset, record in enumerate(image):
        apply_record(metadata, record, offset)
    return judge(Asked(api, metadata, asked, told, written, settings))


# ------------------------------------------------------------------------------- ACLs

ACL: dict[str, Any] = {
    "resource_type": 2,
    "resource_name": "t",
    "pattern_type": 3,
    "principal": "User:a",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}


def acl(id_: UUID = ID, **changes: Any) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(version=0, id=id_, **{**ACL, **changes})


def created(*codes: int, written: list[MetadataRecord], known: Any = (), **changes: Any) -> Any:
    api = ApiKey.CREATE_ACLS
    fields = {**ACL, **changes}
    fields["resource_pattern_type"] = fields.pop("pattern_type")
    creation = asked_part(api, "AclCreation", **fields)
    rows = tuple([row(api, "AclCreationResult", code) for code in codes])
    asked = request(api, creations=(creation,) * len(codes))
    return wrong(api, asked, answer(api, results=rows), written, *known)


def test_an_acl_is_made_once_and_has_a_new_id() -> None:
    assert created(0, written=[acl()]) == []
    assert created(0, 0, written=[acl()]) == [], "twice in a request"
    assert created(0, written=[], known=[acl()]) == [], "there is one already"
    assert created(0, written=[]), "it is not written"
    assert created(0, written=[acl(resource_name="u")])
    assert created(0, written=[acl(), acl(OTHER)])
    assert created(0, written=[acl()], known=[acl(resource_name="u")]) == [
        f"the ids {ID} are not all new"
    ]


@pytest.mark.parametrize(
    "senseless", [{"resource_name": ""}, {"principal": "nobody"}, {"operation": 0}]
)
def test_an_acl_that_makes_no_sense_is_refused(senseless: dict[str, Any]) -> None:
    assert created(42, written=[], **senseless) == []
    assert created(0, written=[acl(**senseless)], **senseless)
    assert created(42, written=[]), "one that does is not"


def test_an_acl_of_nobody_is_told_by_name() -> None:
    made = acl(principal="nobody")
    assert created(0, written=[made], principal="nobody")[0] == OF_NOBODY
    assert OF_NOBODY not in created(0, written=[acl()], principal="nobody")


def test_a_range_of_addresses_is_left_to_the_release() -> None:
    assert created(42, written=[], host="10.0.0.0/8") is None


FILTER: dict[str, Any] = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


def removed(found: list[dict[str, Any]], ids: list[UUID], **changes: Any) -> Any:
    """Ask for ACLs to go; there are one for each topic t and one for those that begin with t."""
    api = ApiKey.DELETE_ACLS
    filter_ = asked_part(api, "DeleteAclsFilter", **{**FILTER, **changes})
    named = [row(api, "DeleteAclsMatchingAcl", **{**ACL, **each}) for each in found]
    rows = (row(api, "DeleteAclsFilterResult", matching_acls=tuple(named)),)
    written = [RemoveAccessControlEntryRecord(version=0, id=each) for each in ids]
    there = (acl(), acl(OTHER, pattern_type=4, principal="User:b"))
    told = answer(api, filter_results=rows)
    return wrong(api, request(api, filters=(filter_,)), told, [*written], *there)


LITERAL_T: dict[str, Any] = {}
PREFIX_T: dict[str, Any] = {"pattern_type": 4, "principal": "User:b"}


@pytest.mark.parametrize(
    ("filter_", "found", "ids"),
    [
        ({}, [LITERAL_T, PREFIX_T], [ID, OTHER]),
        ({"principal_filter": "User:b"}, [PREFIX_T], [OTHER]),
        ({"pattern_type_filter": 3}, [LITERAL_T], [ID]),
        ({"resource_name_filter": "tu"}, [], []),
        ({"resource_name_filter": "tu", "pattern_type_filter": 2}, [PREFIX_T], [OTHER]),
        (
            {"resource_name_filter": "t", "pattern_type_filter": 2},
            [LITERAL_T, PREFIX_T],
            [ID, OTHER],
        ),
        ({"resource_type_filter": 3}, [], []),
        ({"host_filter": "h"}, [], []),
    ],
)
def test_acls_go_that_a_filter_means(
    filter_: dict[str, Any], found: list[dict[str, Any]], ids: list[UUID]
) -> None:
    assert removed(found, ids, **filter_) == []
    others = [each for each in (ID, OTHER) if each not in ids]
    assert removed(found, others, **filter_), "others are written"
    assert removed([*found, {"host": "h"}], ids, **filter_), "another is named"


# ----------------------------------------------------------------------------- quotas


def limit(value: float | None, key: str = "producer_byte_rate", **of: str | None) -> Any:
    parts = tuple([EntityData(entity_type=k, entity_name=v) for k, v in sorted(of.items())])
    return ClientQuotaRecord(
        version=0, entity=parts, key=key, value=value or 0.0, remove=value is None
    )


def limited(
    *wanted: ClientQuotaRecord, code: int, written: list[MetadataRecord], known: Any = ()
) -> Any:
    """Ask for quotas, an entry for each."""
    api = ApiKey.ALTER_CLIENT_QUOTAS
    entries, told = [], {}
    for each in wanted:
        pairs = [(part.entity_type, part.entity_name) for part in each.entity]
        op = asked_part(api, "OpData", key=each.key, value=each.value, remove=each.remove)
        names = [asked_part(api, "EntityData", entity_type=k, entity_name=v) for k, v in pairs]
        entries.append(asked_part(api, "EntryData", entity=tuple(names), ops=(op,)))
        names = [row(api, "EntityData", entity_type=k, entity_name=v) for k, v in pairs]
        told[tuple(pairs)] = row(api, "EntryData", code, entity=tuple(names))
    asked = request(api, entries=tuple(entries), validate_only=False)
    return wrong(api, asked, answer(api, entries=tuple(told.values())), written, *known)


def test_a_quota_is_set_once_and_goes_if_it_is_there() -> None:
    ten = limit(10.0, user="a")
    assert limited(ten, code=0, written=[ten]) == []
    assert limited(ten, code=0, written=[], known=[ten]) == []
    assert limited(limit(None, user="a"), code=0, written=[]) == []
    gone = limit(None, user="a")
    assert limited(gone, code=0, written=[gone], known=[ten]) == []
    assert limited(gone, code=0, written=[], known=[ten]), "it stays"
    assert limited(ten, code=0, written=[]), "it is not set"
    assert limited(ten, code=0, written=[limit(10.0, user=None)]), "another's is set"
    assert limited(ten, code=42, written=[]), "it is refused"


@pytest.mark.parametrize(
    "senseless",
    [
        limit(1.0),
        limit(1.0, user=""),
        limit(1.0, group="g"),
        limit(1.0, ip=None, user="a"),
        limit(1.0, ip=None),
        limit(1.0, "connection_creation_rate", user="a"),
        limit(-1.0, user="a"),
        limit(1.5, user="a"),
        limit(float("inf"), "request_percentage", user="a"),
        limit(2.0**31, "connection_creation_rate", ip=None),
    ],
)
def test_a_quota_that_makes_no_sense_is_refused(senseless: ClientQuotaRecord) -> None:
    assert limited(senseless, code=42, written=[]) == []
    assert limited(senseless, code=0, written=[senseless])


@pytest.mark.parametrize(
    "fine",
    [
        limit(1.5, "request_percentage", user="a", **{"client-id": None}),
        limit(2.0**31 - 1, "connection_creation_rate", ip="::1"),
    ],
)
def test_what_is_no_whole_number_may_be_one_of_some_quotas(fine: ClientQuotaRecord) -> None:
    assert limited(fine, code=0, written=[fine]) == []


def test_an_entity_that_comes_twice_is_refused_and_gets_nothing() -> None:
    one, two = limit(10.0, user="a"), limit(20.0, "consumer_byte_rate", user="a")
    assert limited(one, two, code=42, written=[]) == []
    told = limited(one, two, code=42, written=[one])
    assert told[0] == TWICE
    assert TWICE not in limited(one, code=42, written=[one])


# ------------------------------------------------------------------------------ SCRAM


def credential(name: str = "a") -> UserScramCredentialRecord:
    """That of the salted password "p"."""
    client_key = hmac.digest(b"p", b"Client Key", "sha256")
    return UserScramCredentialRecord(
        version=0,
        name=name,
        mechanism=1,
        salt=b"s",
        stored_key=hashlib.sha256(client_key).digest(),
        server_key=hmac.digest(b"p", b"Server Key", "sha256"),
        iterations=ITERATIONS[0],
    )


def altered(
    code: int, written: list[MetadataRecord], *known: MetadataRecord, gone: bool, **changes: Any
) -> Any:
    api = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
    fields: dict[str, Any] = {"name": "a", "mechanism": 1, "iterations": ITERATIONS[0]}
    fields |= {"salt": b"s", "salted_password": b"p", **changes}
    kind = "ScramCredentialDeletion" if gone else "ScramCredentialUpsertion"
    part = asked_part(api, kind, **fields)
    asked = request(api, deletions=(part,) * gone, upsertions=(part,) * (not gone))
    told = row(api, "AlterUserScramCredentialsResult", code, user=fields["name"])
    return wrong(api, asked, answer(api, results=(told,)), written, *known)


def test_a_credential_is_what_rfc_5802_makes_of_the_salted_password() -> None:
    right = credential()
    assert altered(0, [right], gone=False) == []
    for field in ("stored_key", "server_key", "salt"):
        other = msgspec.structs.replace(right, **{field: b"x"})
        assert altered(0, [other], gone=False), field


def test_a_credential_goes_if_it_is_there() -> None:
    gone = RemoveUserScramCredentialRecord(version=0, name="a", mechanism=1)
    assert altered(0, [gone], credential(), gone=True) == []
    assert altered(91, [], credential("b"), gone=True) == []
    assert altered(91, [], credential(), gone=True)
    assert altered(0, [], credential(), gone=True)


@pytest.mark.parametrize(
    ("code", "senseless"),
    [
        (93, {"name": ""}),
        (33, {"mechanism": 3}),
        (93, {"iterations": ITERATIONS[0] - 1}),
        (93, {"iterations": ITERATIONS[1] + 1}),
    ],
)
def test_a_credential_that_makes_no_sense_is_refused(code: int, senseless: dict[str, Any]) -> None:
    assert altered(code, [], gone=False, **senseless) == []
    assert altered(42, [], gone=False, **senseless)
    made = msgspec.structs.replace(credential(), **senseless)
    assert altered(0, [made], gone=False, **senseless)


# ------------------------------------------------------------------------------ tokens


def token(**changes: Any) -> DelegationTokenRecord:
    fields = {"owner": ME, "requester": ME, "renewers": (), "issue_timestamp": NOW}
    fields |= {"max_timestamp": NOW + 9000, "expiration_timestamp": NOW + 5000, "token_id": "x"}
    return DelegationTokenRecord(version=0, **{**fields, **changes})


def at(ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)


def secret_of(id_: str) -> bytes:
    return hmac.digest(KEY.encode(), id_.encode(), "sha512")


def made(
    written: list[MetadataRecord],
    code: int = 0,
    renewers: Any = (),
    settings: dict[str, str] = SETTINGS,
    **changes: Any,
) -> Any:
    api = ApiKey.CREATE_DELEGATION_TOKEN
    named = [
        asked_part(api, "CreatableRenewers", principal_type=kind, principal_name=name)
        for kind, name in renewers
    ]
    asked = request(
        api,
        owner_principal_type=None,
        owner_principal_name=None,
        renewers=tuple(named),
        max_lifetime=timedelta(milliseconds=9000),
    )
    told = answer(
        api,
        error_code=ErrorCode(code),
        principal_type="User",
        principal_name="ANONYMOUS",
        token_requester_principal_type="User",
        token_requester_principal_name="ANONYMOUS",
        issue_timestamp=at(NOW),
        expiry_timestamp=at(NOW + 5000),
        max_timestamp=at(NOW + 9000),
        token_id="x",
        hmac=secret_of("x"),
    )
    return wrong(api, asked, replace(told, **changes), written, settings=settings)


def test_a_token_lives_as_long_as_was_asked_for_and_as_may_be() -> None:
    assert made([token()]) == []
    assert made([])
    assert made([token(max_timestamp=NOW + 9001)])
    assert made([token(expiration_timestamp=NOW + 9000)]), "it is renewed by then, or goes"
    assert made([token()], hmac=b"x") == ["the token's HMAC is not that of its id"]
    assert made([token()], expiry_timestamp=at(NOW)), "the answer says another time"
    assert made([token(), NoOpRecord(version=0)])


def test_a_token_is_refused_where_there_are_none_and_for_renewers_that_are_no_users() -> None:
    assert made([], 61, settings={}) == []
    assert made([], 61)
    assert made([], 67, renewers=[("Group", "g")]) == []
    assert made([token(renewers=("Group:g",))], renewers=[("Group", "g")])
    assert made([token(renewers=("User:b",))], renewers=[("User", "b")]) == []


def renewed(
    code: int, written: list[MetadataRecord], known: DelegationTokenRecord, until: int
) -> Any:
    api = ApiKey.RENEW_DELEGATION_TOKEN
    asked = request(api, hmac=secret_of("x"), renew_period=timedelta(seconds=1))
    told = answer(api, error_code=ErrorCode(code), expiry_timestamp=at(until))
    return wrong(api, asked, told, written, known)


def test_a_token_is_renewed_for_its_owner_and_renewers_until_its_end() -> None:
    longer = token(expiration_timestamp=NOW + 8000)
    assert renewed(0, [longer], token(), NOW + 8000) == []
    assert renewed(0, [longer], token(), NOW + 7000), "the answer says another time"
    beyond = token(expiration_timestamp=NOW + 9001)
    assert renewed(0, [beyond], token(), NOW + 9001)
    assert renewed(66, [], token(), 0) == []
    assert renewed(66, [longer], token(), 0)
    assert renewed(63, [], token(), 0), "it is mine"
    of_another = token(owner="User:b")
    assert renewed(63, [], of_another, 0) == []
    assert renewed(66, [], of_another, 0) == [], "the time comes first"
    assert renewed(0, [longer], of_another, NOW + 8000)
    lent = token(owner="User:b", renewers=(ME,))
    mine = token(owner="User:b", renewers=(ME,), expiration_timestamp=NOW + 8000)
    assert renewed(0, [mine], lent, NOW + 8000) == []
    assert renewed(62, [], token(token_id="y"), 0) is None, "it may have been there"


def expired(code: int, written: list[MetadataRecord], period_ms: int) -> Any:
    api = ApiKey.EXPIRE_DELEGATION_TOKEN
    period = timedelta(milliseconds=period_ms)
    asked = request(api, hmac=secret_of("x"), expiry_time_period=period)
    told = answer(api, error_code=ErrorCode(code), expiry_timestamp=at(NOW + 1000))
    return wrong(api, asked, told, written, token())


def test_a_token_is_taken_back_at_once_or_ends_earlier() -> None:
    gone = RemoveDelegationTokenRecord(version=0, token_id="x")
    assert expired(0, [gone], -1) == []
    assert expired(0, [], -1)
    assert expired(66, [], -1), "who is taken back may have expired"
    assert expired(66, [], 1000) == []
    assert expired(0, [gone], 1000)
    assert expired(0, [token(expiration_timestamp=NOW + 1000)], 1000) == []
