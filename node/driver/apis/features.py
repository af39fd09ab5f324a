"""UpdateFeatures (57). Source: KIP-584, KIP-778, KIP-1022 (version 2 has no rows)."""

from __future__ import annotations

from typing import Any

from node.controller.errors import ApiError
from node.controller.feature_operations import FeatureUpdate, UpdateFeaturesReply, UpgradeType
from node.driver.apis.call import Call
from node.driver.apis.fields import error_fields, fields_of
from node.driver.apis.registry import Listener, serves
from node.driver.apis.serving import Serving
from node.wire.api import ApiKey


@serves(ApiKey.UPDATE_FEATURES, Listener.CONTROLLER, forwarded=True)
def update_features(serving: Serving, call: Call) -> None:
    """Raise or lower finalised levels: all or none."""
    updates = [
        FeatureUpdate(each.feature, int(each.max_version_level), _upgrade_type(each))
        for each in call.body.feature_updates
    ]

    def encode(reply: UpdateFeaturesReply) -> Any:
        rows = () if reply.error else reply.results
        return call.struct(
            results=tuple(
                [
                    call.struct("UpdatableFeatureResult", feature=name, **fields_of(ApiError.NONE))
                    for name in (rows if call.knows(None, "results") else ())
                ]
            ),
            **error_fields(reply),
        )

    serving.write(
        call,
        lambda c: c.update_features(
            updates, validate_only=getattr(call.body, "validate_only", False)
        ),
        UpdateFeaturesReply,
        encode,
    )


def _upgrade_type(update: Any) -> int:
    if hasattr(update, "upgrade_type"):
        return int(update.upgrade_type)
    return UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
