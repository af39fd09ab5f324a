"""DescribeConfigs (32), AlterConfigs (33), IncrementalAlterConfigs (44).

A description holds every setting that the resource has in Kafka, each with its source; with all
places that set it, if asked (synonyms). Source: KIP-133, KIP-226, KIP-339, Kafka's ConfigHelper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from node.controller.errors import ApiError
from node.controller.operations import (
    AlterResource,
    AlterResult,
    ConfigChange,
    ConfigDescription,
    ReplaceResource,
)
from node.driver.apis.call import Call
from node.driver.apis.config_defaults import (
    BROKER_DEFAULTS,
    TOPIC_DEFAULTS,
    ConfigType,
    Default,
    is_sensitive,
)
from node.driver.apis.fields import error_fields
from node.driver.apis.registry import Listener, serves
from node.driver.apis.serving import Serving
from node.metadata.image import BROKER
from node.wire.api import ApiKey

TOPIC_CONFIG: Final = 1  # sources: set on the topic,
BROKER_CONFIG: Final = 2  # on this broker,
DEFAULT_BROKER_CONFIG: Final = 3  # on all brokers,
STATIC_BROKER_CONFIG: Final = 4  # in the broker's properties,
DEFAULT_CONFIG: Final = 5  # nowhere
_UNKNOWN: Final = Default(ConfigType.UNKNOWN, None)
# One request may name a topic with long settings ten thousand times.
ANSWER_CHARS_MAX: Final = 8 * 1024 * 1024
_CHARS_OF_A_SETTING: Final = 16  # besides name and values

Place = tuple[str, str | None, int]  # where a setting is set: name there, value, source


# --------------------------------------------------------------------------- alter


@serves(ApiKey.INCREMENTAL_ALTER_CONFIGS, Listener.CONTROLLER, forwarded=True)
def incremental_alter_configs(serving: Serving, call: Call) -> None:
    """KIP-339."""
    resources = [
        AlterResource(
            int(resource.resource_type),
            resource.resource_name,
            tuple(
                [ConfigChange(c.name, int(c.config_operation), c.value) for c in resource.configs]
            ),
        )
        for resource in call.body.resources
    ]
    serving.write(
        call,
        lambda c: c.long.alter_configs(resources, validate_only=call.body.validate_only),
        lambda error, message: _all_refused(resources, error, message),
        lambda rows: _altered(call, rows),
    )


@serves(ApiKey.ALTER_CONFIGS, Listener.CONTROLLER, forwarded=True)
def alter_configs(serving: Serving, call: Call) -> None:
    """KIP-133: what is not named is removed."""
    resources = [
        ReplaceResource(
            int(resource.resource_type),
            resource.resource_name,
            {config.name: config.value for config in resource.configs},
        )
        for resource in call.body.resources
    ]
    serving.write(
        call,
        lambda c: c.long.replace_configs(resources, validate_only=call.body.validate_only),
        lambda error, message: _all_refused(resources, error, message),
        lambda rows: _altered(call, rows),
    )


def _all_refused(
    resources: Sequence[AlterResource | ReplaceResource], error: ApiError, message: str
) -> tuple[AlterResult, ...]:
    return tuple([AlterResult(r.resource_type, r.resource_name, error, message) for r in resources])


def _altered(call: Call, rows: Sequence[AlterResult]) -> Any:
    return call.struct(
        responses=tuple(
            [
                call.struct(
                    "AlterConfigsResourceResponse",
                    resource_type=row.resource_type,
                    resource_name=row.resource_name,
                    **error_fields(row),
                )
                for row in rows
            ]
        )
    )


# --------------------------------------------------------------------------- describe


@serves(ApiKey.DESCRIBE_CONFIGS, Listener.CONTROLLER, Listener.BROKER)
def describe_configs(serving: Serving, call: Call) -> None:
    """KIP-133; a broker describes no other broker, a controller describes all of them."""
    body = call.body
    asked = [
        ((int(r.resource_type), r.resource_name), r.configuration_keys) for r in body.resources
    ]

    def look() -> list[ConfigDescription]:
        return [_look(serving, type_, name) for (type_, name), _ in asked]

    def refused(error: ApiError, message: str) -> list[ConfigDescription]:
        return [ConfigDescription(*resource, error, message) for resource, _ in asked]

    def encode(rows: list[ConfigDescription]) -> Any:
        left = ANSWER_CHARS_MAX
        results = []
        for row, (_, keys) in zip(rows, asked, strict=True):
            settings: tuple[Any, ...] = ()
            if left >= 0:
                settings = _configs(call, serving, row, keys, synonyms=body.include_synonyms)
                left -= sum(map(_chars, settings))
            results.append(_described(call, row, settings) if left >= 0 else _too_much(call, row))
        return call.struct(results=tuple(results))

    serving.read(call, look, refused, encode)


def _described(call: Call, row: ConfigDescription, settings: tuple[Any, ...]) -> Any:
    return call.struct(
        "DescribeConfigsResult",
        resource_type=row.resource_type,
        resource_name=row.resource_name,
        configs=settings,
        **error_fields(row),
    )


def _too_much(call: Call, row: ConfigDescription) -> Any:
    refusal = ConfigDescription(
        row.resource_type,
        row.resource_name,
        ApiError.POLICY_VIOLATION,
        f"The answer would have more than {ANSWER_CHARS_MAX} characters: "
        "describe fewer resources at a time",
    )
    return _described(call, refusal, ())


def _chars(setting: Any) -> int:
    """Estimate the length of a setting in the answer, in characters."""
    places = [(setting.name, setting.value), *((s.name, s.value) for s in setting.synonyms)]
    return sum(_CHARS_OF_A_SETTING + len(name) + len(value or "") for name, value in places)


def _look(serving: Serving, type_: int, name: str) -> ConfigDescription:
    node_id = str(serving.node.config.node_id)
    if type_ == BROKER and name not in ("", node_id) and not serving.is_controller:
        return ConfigDescription(
            type_,
            name,
            ApiError.INVALID_REQUEST,
            f"Unexpected broker id, expected {node_id} or empty string, but received {name}",
        )
    return serving.reader.describe_configs((type_, name))


def _configs(
    call: Call,
    serving: Serving,
    row: ConfigDescription,
    keys: Sequence[str] | None,
    *,
    synonyms: bool,
) -> tuple[Any, ...]:
    if row.error:
        return ()
    of_all = serving.node.machine.image.config((BROKER, ""))
    if row.resource_type != BROKER:
        own = serving.node.machine.image.config((BROKER, str(serving.node.config.node_id)))
        settings = {
            name: (default, _topic_places(name, default, (row.configs, own, of_all)))
            for name, default in _wanted(keys, TOPIC_DEFAULTS, row.configs)
        }
    elif row.resource_name == "":
        settings = {
            name: (default, [(name, row.configs[name], DEFAULT_BROKER_CONFIG)])
            for name, default in _wanted(keys, BROKER_DEFAULTS, row.configs)
            if name in row.configs
        }
    else:
        static = {"node.id": row.resource_name}
        settings = {
            name: (default, _broker_places(name, default, (row.configs, of_all, static)))
            for name, default in _wanted(keys, BROKER_DEFAULTS, row.configs, of_all, static)
        }
    return tuple(
        [_setting(call, name, *found, with_synonyms=synonyms) for name, found in settings.items()]
    )


def _wanted(
    keys: Sequence[str] | None, known: Mapping[str, Default], *set_ones: Mapping[str, str]
) -> list[tuple[str, Default]]:
    """The known settings, and those that somebody set though nobody knows them, by name.

    Only those that are asked for, unless none are named.
    """
    every = {name for names in set_ones for name in names}.union(known)
    wanted = every.intersection(keys) if keys else every
    return [(name, known.get(name, _UNKNOWN)) for name in sorted(wanted)]


def _topic_places(
    name: str, default: Default, layers: tuple[Mapping[str, str], ...]
) -> list[Place]:
    """List the places where a topic's setting is set, the effective one first."""
    topic, own, of_all = layers
    places: list[Place] = [(name, topic[name], TOPIC_CONFIG)] if name in topic else []
    if default.synonym is not None:
        places += _broker_places(default.synonym, default, (own, of_all, {}))
    elif not places:
        places.append((name, default.value, DEFAULT_CONFIG))
    return places


def _broker_places(
    name: str, default: Default, layers: tuple[Mapping[str, str], ...]
) -> list[Place]:
    """List the places where a broker's setting is set, the effective one first."""
    sources = (BROKER_CONFIG, DEFAULT_BROKER_CONFIG, STATIC_BROKER_CONFIG)
    places: list[Place] = [
        (name, layer[name], source)
        for layer, source in zip(layers, sources, strict=True)
        if name in layer
    ]
    if default is not _UNKNOWN:
        places.append((name, default.value, DEFAULT_CONFIG))
    return places


def _setting(
    call: Call, name: str, default: Default, places: list[Place], *, with_synonyms: bool
) -> Any:
    hidden = is_sensitive(name)
    _, value, source = places[0]
    return call.struct(
        "DescribeConfigsResourceResult",
        name=name,
        value=None if hidden else value,
        read_only=source == STATIC_BROKER_CONFIG,
        config_source=source,
        is_sensitive=hidden,
        synonyms=tuple(
            [
                call.struct("DescribeConfigsSynonym", name=n, value=None if hidden else v, source=s)
                for n, v, s in (places if with_synonyms else ())
            ]
        ),
        config_type=default.type,
        documentation=None,
    )
