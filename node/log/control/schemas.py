"""The control record that kio lacks, in kio's style so that its serialiser writes and reads it.

No future annotations: the serialiser reads the types at run time. Source: Kafka's
KRaftVersionRecord.json; KIP-853.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.static.constants import EntityType
from kio.static.primitive import i16


@dataclass(frozen=True, slots=True, kw_only=True)
class KRaftVersionRecord:
    """Sets the level of the feature ``kraft.version``."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    version: i16 = field(metadata={"kafka_type": "int16"})
    k_raft_version: i16 = field(metadata={"kafka_type": "int16"})
