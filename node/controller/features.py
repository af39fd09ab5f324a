"""UpdateFeatures, and the first records of an empty log.

Source: Kafka's FeatureControlManager and ActivationRecordsGenerator; KIP-584, KIP-778, KIP-868,
KIP-966.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from node.controller.configs import kept_candidates
from node.controller.context import CLUSTER_DEFAULT, MIN_ISR, Context
from node.controller.errors import ApiError, OperationError
from node.controller.feature_operations import (
    BootstrapMetadata,
    FeatureUpdate,
    UpdateFeaturesReply,
    UpgradeType,
)
from node.controller.operation import Operation
from node.metadata.features import (
    ELR_VERSION,
    FEATURES,
    KRAFT_VERSION,
    METADATA_VERSION,
    controller_registration_supported,
    level_name,
    metadata_version,
    records_differ,
    transactions_supported,
)
from node.metadata.image import BROKER
from node.metadata.schemas import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ClearElrRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
)

_KINDS = frozenset(UpgradeType)


def update_features(
    ctx: Context, operation: Operation, updates: Sequence[FeatureUpdate], kraft_version: int
) -> UpdateFeaturesReply:
    """Finalise other levels, all of them or none.

    The level of kraft.version is only checked against the one it has: it lives in a control
    record, which the consensus core writes.

    Raises:
        OperationError: INVALID_UPDATE_VERSION mostly, for the first level that cannot be.
    """
    proposed = ctx.overlay.feature_levels()
    proposed |= {update.feature: update.max_version_level for update in updates}
    for update in updates:
        is_kraft = update.feature == KRAFT_VERSION
        _check(ctx, update, kraft_version if is_kraft else _current(ctx, update.feature))
        _check_needs(update, proposed)
    for update in updates:
        if update.feature == KRAFT_VERSION:
            continue
        if update.max_version_level == _current(ctx, update.feature):
            continue
        if update.feature == ELR_VERSION:
            if update.max_version_level > 0:
                operation.add(*_elr_safety_records(ctx))
            else:
                _check_no_isr_is_empty(ctx)
        operation.add(
            FeatureLevelRecord(name=update.feature, feature_level=update.max_version_level)
        )
    return UpdateFeaturesReply(results=tuple([update.feature for update in updates]))


def _current(ctx: Context, feature: str) -> int:
    return ctx.metadata_version if feature == METADATA_VERSION else ctx.overlay.feature(feature)


def _check(ctx: Context, update: FeatureUpdate, old: int) -> None:
    new = update.max_version_level
    problem = None
    if update.upgrade_type not in _KINDS:
        problem = "The controller does not support the given upgrade type."
    elif new < 0:
        problem = "A feature version cannot be less than 0."
    else:
        problem = next(_reasons(ctx, update.feature, new), None)
        if problem is None and update.feature not in FEATURES:
            problem = f"Feature {update.feature} not found."
    if problem is None and new < old and update.upgrade_type == UpgradeType.UPGRADE:
        problem = (
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade."
        )
    elif problem is None and new > old and update.upgrade_type != UpgradeType.UPGRADE:
        problem = "Can't downgrade to a newer version."
    if problem is None and update.feature == METADATA_VERSION and new < old:
        problem = _downgrade_problem(update, new, old)
    elif problem is None and update.feature == KRAFT_VERSION and new < old:
        problem = "Can't downgrade the version of this feature."
    if problem is not None:
        raise _invalid(update, problem)


def _downgrade_problem(update: FeatureUpdate, new: int, old: int) -> str | None:
    if not records_differ(new, old):
        return None
    if update.upgrade_type == UpgradeType.UNSAFE_DOWNGRADE:
        return "Unsafe metadata downgrade is not supported in this version."
    return (
        f"Refusing to perform the requested downgrade from {level_name(old)} to "
        f"{level_name(new)} because it might delete metadata information."
    )


def _reasons(ctx: Context, feature: str, level: int) -> Iterator[str]:
    """List why this controller, a broker or another controller cannot do with a level."""
    local = ctx.config.supported_features or {
        name: (known.lowest, known.highest) for name, known in FEATURES.items()
    }
    yield from _unsupported(level, f"Local controller {ctx.config.node_id}", local.get(feature))
    for broker in ctx.overlay.brokers():
        yield from _unsupported(level, f"Broker {broker.id}", broker.features.get(feature))
    if not controller_registration_supported(ctx.metadata_version):
        return
    registered = {ctx.config.node_id}
    for controller in ctx.overlay.controllers():
        registered.add(controller.id)
        if controller.id != ctx.config.node_id:
            known = controller.features.get(feature)
            yield from _unsupported(level, f"Controller {controller.id}", known)
    for voter_id in ctx.config.voter_ids:
        if voter_id not in registered:
            yield (f"controller {voter_id} has not registered, and may not support this feature")


def _unsupported(level: int, who: str, known: tuple[int, int] | None) -> Iterator[str]:
    lowest, highest = known or (0, 0)
    if known is None and level == 0:
        return
    if known is None or highest == 0:
        if level != 0:
            yield f"{who} does not support this feature."
    elif not lowest <= level <= highest:
        yield f"{who} only supports versions {lowest}-{highest}"


def _check_needs(update: FeatureUpdate, proposed: dict[str, int]) -> None:
    """Refuse an update in which a feature's level needs a higher metadata.version."""
    version = metadata_version(proposed)
    for name, level in proposed.items():
        known = FEATURES.get(name)
        needed = known.needs.get(level, 0) if known is not None else 0
        if version < needed:
            raise _invalid(
                update,
                f"{name} could not be set to {level} because it depends on {METADATA_VERSION} "
                f"level {needed}",
            )


def _invalid(update: FeatureUpdate, problem: str) -> OperationError:
    return OperationError(
        ApiError.INVALID_UPDATE_VERSION,
        f"Invalid update version {update.max_version_level} for feature {update.feature}. "
        f"{problem}",
    )


def _check_no_isr_is_empty(ctx: Context) -> None:
    """Refuse to switch ELRs off while partitions have nobody else who may lead them.

    Kafka does it, and such a partition has no leader any more: docs/findings.md.
    """
    for topic_id, index in ctx.overlay.partitions.leaderless():
        state = ctx.overlay.partition(topic_id, index)
        if state is not None and not state.isr and state.eligible_leaders:
            raise OperationError(
                ApiError.INVALID_UPDATE_VERSION,
                f"{ELR_VERSION} cannot be switched off while partition {index} of topic "
                f"{ctx.overlay.topic_name(topic_id)} has an empty ISR: one of the brokers "
                f"{list(state.eligible_leaders)} must come back first.",
            )


def _elr_safety_records(ctx: Context) -> list[MetadataRecord]:
    """One min.insync.replicas for the whole cluster, and nobody who was eligible before.

    The minimum may have changed while the feature was off. Kafka lets ELRs stay: docs/findings.md.
    """
    records: list[MetadataRecord] = [
        ClearElrRecord(topic_name=""),
        *kept_candidates(ctx, CLUSTER_DEFAULT),
    ]
    if ctx.overlay.setting(CLUSTER_DEFAULT, MIN_ISR) is None:
        records.append(_cluster_setting(MIN_ISR, ctx.config.static.get(MIN_ISR, "1")))
    for type_, name in sorted(ctx.overlay.resources()):
        if type_ == BROKER and name and ctx.overlay.setting((type_, name), MIN_ISR) is not None:
            records.append(
                ConfigRecord(resource_type=type_, resource_name=name, name=MIN_ISR, value=None)
            )
    return records


def _cluster_setting(name: str, value: str) -> ConfigRecord:
    return ConfigRecord(resource_type=BROKER, resource_name="", name=name, value=value)


# --------------------------------------------------------------------------- activation


def bootstrap_records(ctx: Context, bootstrap: BootstrapMetadata) -> tuple[MetadataRecord, ...]:
    """Make the first records of an empty log, in a transaction where the level knows such."""
    settings = dict(bootstrap.broker_defaults)
    if bootstrap.features.get(ELR_VERSION, 0) > 0:
        settings.setdefault(MIN_ISR, ctx.config.static.get(MIN_ISR, "1"))
    first = {METADATA_VERSION: metadata_version(bootstrap.features)}
    levels = first | {
        name: level for name, level in sorted(bootstrap.features.items()) if name not in first
    }
    records: list[MetadataRecord] = [
        FeatureLevelRecord(name=name, feature_level=level)
        for name, level in levels.items()
        if level
    ]
    records += [_cluster_setting(name, value) for name, value in sorted(settings.items())]
    if transactions_supported(levels[METADATA_VERSION]):
        return (
            BeginTransactionRecord(name="Bootstrap records"),
            *records,
            EndTransactionRecord(),
        )
    return tuple(records)


def activate(
    ctx: Context,
    operation: Operation,
    bootstrap: BootstrapMetadata,
    *,
    empty: bool,
    open_transaction: bool,
) -> str | None:
    """Put the log into a state to go on from; what was done, None if nothing had to be."""
    done = []
    if open_transaction:
        operation.add(AbortTransactionRecord(reason="Controller failover"))
        done.append("aborted a transaction left open")
    if empty:
        operation.add(*bootstrap_records(ctx, bootstrap))
        done.append(f"wrote the records of {bootstrap.source}")
    return ", ".join(done) or None
