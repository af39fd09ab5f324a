"""ApiVersions as a leader asks it of a node that wants to be a voter. Source: KIP-853, KIP-584.

Below version 4 a server leaves out what it supports from level 0 on, as kraft.version is, because
old clients cannot read that (KAFKA-17011); ``kraft_versions`` is then None.
"""

from __future__ import annotations

from typing import Any, Final

from node.core.messages import ProbeVersionsRequest, ProbeVersionsResponse
from node.core.types import VersionRange
from node.wire.quorum.parts import code_of, error_of
from node.wire.structs import NO_THROTTLE, build, knows

CLIENT_NAME: Final = "krucible"
CLIENT_VERSION: Final = "0.1.0"
KRAFT_VERSION_FEATURE: Final = "kraft.version"


def probe_request_to_wire(_request: ProbeVersionsRequest, payload: type) -> Any:
    """The entity that asks what a node speaks."""
    return build(payload, client_software_name=CLIENT_NAME, client_software_version=CLIENT_VERSION)


def probe_response_to_wire(response: ProbeVersionsResponse, payload: type) -> Any:
    """The entity that says nothing but the kraft.version, where the version of it can."""
    features: tuple[Any, ...] = ()
    if response.kraft_versions is not None and knows(payload, None, "supported_features"):
        lowest, highest = response.kraft_versions
        features = (
            build(
                payload,
                "SupportedFeatureKey",
                name=KRAFT_VERSION_FEATURE,
                min_version=lowest,
                max_version=highest,
            ),
        )
    return build(
        payload,
        error_code=code_of(response.error),
        api_keys=(),
        throttle_time=NO_THROTTLE,
        supported_features=features,
    )


def probe_response_from_wire(entity: Any) -> ProbeVersionsResponse:
    """Read what a node said of its kraft.version."""
    for feature in getattr(entity, "supported_features", ()):
        if feature.name == KRAFT_VERSION_FEATURE:
            levels = VersionRange(feature.min_version, feature.max_version)
            return ProbeVersionsResponse(error_of(entity.error_code), levels)
    return ProbeVersionsResponse(error_of(entity.error_code), None)
