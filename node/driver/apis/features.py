"""UpdateFeatures (57). Source: KIP-584, KIP-778, KIP-1022 (version 2 has no rows)."""

from __future__ import annotations

from typing import Any

from node.controller.controller import QuorumController
from node.controller.errors import ApiError
from node.controller.feature_operations import FeatureUpdate, UpdateFeaturesReply, UpgradeType
from node.controller.operations import ControllerResult
from node.core.messages import Error, VoterChangeResponse
from node.driver.apis.call import Call
from node.driver.apis.fields import error_fields, fields_of
from node.driver.apis.registry import Listener, serves
from node.driver.apis.serving import Serving
from node.metadata.features import KRAFT_VERSION
from node.wire.api import ApiKey


@serves(ApiKey.UPDATE_FEATURES, Listener.CONTROLLER, forwarded=True)
def update_features(serving: Serving, call: Call) -> None:
    """Raise or lower finalised levels: all or none.

    The level of kraft.version is no metadata record: the core writes it, when the controller has
    no objection to any of the levels, and before the others.
    """
    updates = tuple(
        FeatureUpdate(each.feature, int(each.max_version_level), _upgrade_type(each))
        for each in call.body.feature_updates
    )
    validate_only = bool(getattr(call.body, "validate_only", False))
    level = max((u.max_version_level for u in updates if u.feature == KRAFT_VERSION), default=None)

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

    def operate(
        controller: QuorumController, *, validate_only: bool = validate_only
    ) -> ControllerResult[UpdateFeaturesReply]:
        in_force = serving.node.replica.kraft_version
        return controller.update_features(
            updates, validate_only=validate_only, kraft_version=in_force
        )

    def write() -> None:
        serving.write(call, operate, UpdateFeaturesReply, encode)

    def told(response: VoterChangeResponse) -> None:
        """The core's turn is over: the levels that are records follow."""
        if response.error is Error.NONE:
            write()
        else:
            call.reply(encode(UpdateFeaturesReply(_api_error(response.error), response.message)))

    def begin() -> None:
        if level is not None and serving.accepts(lambda c: operate(c, validate_only=True)):
            serving.node.upgrade_quorum(level, validate_only=validate_only, told=told)
        else:
            write()

    serving.node.long_work.when_free(begin)


def _api_error(error: Error) -> ApiError:
    is_over = error is Error.NOT_LEADER_OR_FOLLOWER
    return ApiError.NOT_CONTROLLER if is_over else ApiError(int(error))


def _upgrade_type(update: Any) -> int:
    if hasattr(update, "upgrade_type"):
        return int(update.upgrade_type)
    return UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
