"""The answers to requests about security that this node does not do: SASL and ACLs.

They are what Kafka answers on a listener without SASL and without an authorizer. A client that
insists on SASL cannot go on, so its connection ends after the answer.
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode

from node.wire.api import ApiKey, ApiTable, apis
from node.wire.errors import UnsupportedVersionError
from node.wire.payloads import api_schema
from node.wire.structs import NO_THROTTLE, build

SASL_APIS: Final[ApiTable] = apis((ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE))
ACL_APIS: Final[ApiTable] = apis((ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS))
REFUSED_APIS: Final[ApiTable] = apis((*SASL_APIS, *ACL_APIS))

SASL_REASON: Final = "asks for SASL on a listener without: use security.protocol PLAINTEXT or SSL"
_NO_SASL: Final = "this listener has no SASL: use security.protocol PLAINTEXT or SSL"
_NO_ACLS: Final = "no authorizer is configured: ACLs are not supported"


def refusal(api_key: int, version: int, request: Any) -> tuple[Any, str | None]:
    """The entity that refuses, and why the connection then ends; None = it lives on.

    Args:
        api_key: One of ``REFUSED_APIS``.
        version: Of the request.
        request: Its body: each creation and each filter of ACLs gets its own result.

    Raises:
        UnsupportedVersionError: The API is none of those, or has no such version.
    """
    if api_key not in REFUSED_APIS or version not in REFUSED_APIS[api_key]:
        raise UnsupportedVersionError(f"version {version} of API {api_key} is not one to refuse")
    payload = api_schema(api_key, version).response
    if api_key in SASL_APIS:
        return _sasl(payload), SASL_REASON
    return _acls(payload, request), None


def _sasl(payload: type) -> Any:
    return build(
        payload,
        error_code=ErrorCode.illegal_sasl_state,
        error_message=_NO_SASL,
        mechanisms=(),
        auth_bytes=b"",
    )


def _acls(payload: type, request: Any) -> Any:
    said: dict[str, Any] = {"error_code": ErrorCode.security_disabled, "error_message": _NO_ACLS}
    if hasattr(request, "creations"):
        result = build(payload, "AclCreationResult", **said)
        return build(payload, throttle_time=NO_THROTTLE, results=(result,) * len(request.creations))
    if hasattr(request, "filters"):
        result = build(payload, "DeleteAclsFilterResult", matching_acls=(), **said)
        results = (result,) * len(request.filters)
        return build(payload, throttle_time=NO_THROTTLE, filter_results=results)
    return build(payload, throttle_time=NO_THROTTLE, resources=(), **said)
