"""The classes that a node is made of."""

from __future__ import annotations

from dataclasses import fields

from node.core.parts import CoreParts
from node.driver.parts import NodeParts


def classes(parts: NodeParts) -> dict[str, type]:
    """All classes that a node and its core are made of, by name."""
    found = {f.name: getattr(parts, f.name) for f in fields(NodeParts) if f.name != "core"}
    return found | {f"core.{f.name}": getattr(parts.core, f.name) for f in fields(CoreParts)}
