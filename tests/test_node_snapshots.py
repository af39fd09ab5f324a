"""Snapshots of real processes: written, cleaned, fetched, read at a start, cut by kills."""

from __future__ import annotations

from random import Random

from node.controller.controller import QuorumController
from node.metadata.features import METADATA_VERSION
from node.metadata.image import MetadataImage
from node.metadata.schemas import FeatureLevelRecord


def test_a_controller_sees_the_snapshot_that_its_image_has_become() -> None:
    """All of it: tables that were bound when the controller was made are not the image's now."""
    image = MetadataImage()
    controller = QuorumController(rng=Random(1), image=image)
    loaded = MetadataImage()
    loaded.apply(FeatureLevelRecord(name=METADATA_VERSION, feature_level=25), 4)
    image.become(loaded)
    controller.claim(1, now_ms=0)
    assert controller._ctx.metadata_version == 25
