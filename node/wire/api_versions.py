"""ApiVersions: answers clients what a listener serves, and asks servers.

A request in a version that the server does not know is answered all the same, in version 0 with
error 35 and the versions of ApiVersions itself, and the connection lives on: a client must be
able to find out what to speak. Source: KIP-511, Kafka's ApiVersionsRequest. The answer also
carries the cluster's features (KIP-584).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from kio.schema.errors import ErrorCode

from node.wire.api import ApiKey, ApiRange, ApiTable
from node.wire.errors import RemoteProtocolError, UnsupportedVersionError
from node.wire.payloads import (
    api_schema,
    decode,
    encode,
    read_request_head,
    response_frame,
    spoken_versions,
)
from node.wire.shape import REQUEST_ELEMENTS_MAX
from node.wire.structs import NO_THROTTLE, build, knows

_SOFTWARE_NAME: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_FIRST_WITH_SOFTWARE_NAME: Final = 3
_FIRST_WITH_LEVEL_ZERO: Final = 4
_EPOCH_UNKNOWN: Final = -1


@dataclass(frozen=True, slots=True)
class Features:
    """The feature levels that a node supports and those that its cluster has finalized.

    ``epoch`` is the offset of the metadata that ``finalized`` is taken from, -1 = not known yet;
    then nothing is finalized. Level 0 means that a feature is off: it is never told as finalized.
    """

    supported: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # lowest, highest
    finalized: Mapping[str, int] = field(default_factory=dict)
    epoch: int = _EPOCH_UNKNOWN


NO_FEATURES: Final = Features()


def is_api_versions(api_key: int) -> bool:
    """Tell whether a key is that of ApiVersions, which every listener answers."""
    return api_key == ApiKey.API_VERSIONS


def answer_api_versions(
    apis: ApiTable,
    frame: bytes,
    version: int,
    correlation: int,
    features: Features = NO_FEATURES,
) -> bytes:
    """The whole reply to an ApiVersions request frame.

    Raises:
        RemoteProtocolError: The version is known and the request malformed.
    """
    own = apis[ApiKey.API_VERSIONS]
    if version < 0:
        raise RemoteProtocolError(f"version {version} of ApiVersions")
    if version not in own:
        body = _body(0, ErrorCode.unsupported_version, (own,))
        return response_frame(correlation, body, flexible=False)
    schema = api_schema(ApiKey.API_VERSIONS, version)
    head = read_request_head(frame, flexible=schema.flexible_request_header)
    request: Any = decode(
        schema.request, frame, head.body_offset, elements_max=REQUEST_ELEMENTS_MAX
    )
    if version >= _FIRST_WITH_SOFTWARE_NAME and not (
        _SOFTWARE_NAME.fullmatch(request.client_software_name)
        and _SOFTWARE_NAME.fullmatch(request.client_software_version)
    ):
        body = _body(version, ErrorCode.invalid_request, ())
    else:
        body = api_versions_body(apis, version, features)
    return response_frame(correlation, body, flexible=schema.flexible_response_header)


def api_versions_body(apis: ApiTable, version: int, features: Features) -> bytes:
    """The body of a reply that says what is served; raises UnsupportedVersionError."""
    return _body(version, ErrorCode.none, tuple(apis.values()), *_rows(features, version))


class Negotiated:
    """The versions that both sides speak."""

    def __init__(self, peer: Iterable[ApiRange]) -> None:
        self._peer = {api.key: api for api in peer}

    def version(self, api_key: int) -> int:
        """The highest version of an API that both sides speak.

        Raises:
            UnsupportedVersionError: There is none.
        """
        theirs = self._peer.get(api_key)
        if theirs is None:
            raise UnsupportedVersionError(f"the peer does not serve API {api_key}")
        ours = spoken_versions(api_key)
        version = min(ours.max_version, theirs.max_version)
        if version not in ours or version not in theirs:
            raise UnsupportedVersionError(
                f"API {api_key}: the peer serves versions {theirs.min_version} to "
                f"{theirs.max_version}, we speak {ours.min_version} to {ours.max_version}"
            )
        return version


_Supported = tuple[tuple[str, int, int], ...]
_Finalized = tuple[tuple[str, int], ...]


def _rows(features: Features, version: int) -> tuple[_Supported, _Finalized, int]:
    """Give the rows that a version has for the features.

    Below version 4 what is supported from level 0 on is left out: clients of that time fail on it
    (KAFKA-17011).
    """
    supported = tuple(
        (name, low, high)
        for name, (low, high) in sorted(features.supported.items())
        if low > 0 or version >= _FIRST_WITH_LEVEL_ZERO
    )
    if features.epoch < 0:
        return supported, (), _EPOCH_UNKNOWN
    finalized = tuple((name, n) for name, n in sorted(features.finalized.items()) if n > 0)
    return supported, finalized, features.epoch


@lru_cache(maxsize=64)
def _body(
    version: int,
    error: ErrorCode,
    apis: tuple[ApiRange, ...],
    supported: _Supported = (),
    finalized: _Finalized = (),
    epoch: int = _EPOCH_UNKNOWN,
) -> bytes:
    response = api_schema(ApiKey.API_VERSIONS, version).response
    more: dict[str, Any] = {}
    if knows(response, None, "supported_features"):
        more = {
            "supported_features": tuple(
                build(response, "SupportedFeatureKey", name=name, min_version=low, max_version=high)
                for name, low, high in supported
            ),
            "finalized_features": tuple(
                build(
                    response,
                    "FinalizedFeatureKey",
                    name=name,
                    max_version_level=level,
                    min_version_level=level,
                )
                for name, level in finalized
            ),
            "finalized_features_epoch": epoch,
        }
    return encode(
        build(
            response,
            error_code=error,
            throttle_time=NO_THROTTLE,
            api_keys=tuple(
                build(
                    response,
                    "ApiVersion",
                    api_key=api.key,
                    min_version=api.min_version,
                    max_version=api.max_version,
                )
                for api in apis
            ),
            **more,
        )
    )
