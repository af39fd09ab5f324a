"""The catalogue of real bugs that the seeded ones stand for: row numbers, and names of the bugs.

A mutant's row is that of which its ``source`` has a name; one that has none is a bug of our own.
"""

from __future__ import annotations

from collections.abc import Mapping

NAMES: Mapping[int, tuple[str, ...]] = {
    1: ("KAFKA-10527",),
    2: ("KAFKA-10533",),
    4: ("KAFKA-12460",),
    5: ("KAFKA-12181",),
    6: ("KAFKA-12331",),
    7: ("KAFKA-12376",),
    8: ("KAFKA-10677",),
    9: ("KAFKA-13100",),
    10: ("KAFKA-13104",),
    11: ("KAFKA-14104",),
    12: ("KAFKA-14238",),
    13: ("KAFKA-14240",),
    14: ("KAFKA-14618",),
    16: ("KAFKA-14644",),
    17: ("KAFKA-15100",),
    18: ("KAFKA-15312",),
    19: ("KAFKA-15345",),
    20: ("KAFKA-15412",),
    21: ("KAFKA-15489",),
    22: ("KAFKA-16144",),
    23: ("KAFKA-16286",),
    25: ("KAFKA-16531",),
    26: ("KAFKA-17067",),
    28: ("KAFKA-17333",),
    29: ("KAFKA-17608",),
    30: ("KAFKA-17030",),
    31: ("KAFKA-18345",),
    32: ("KAFKA-18723",),
    33: ("KAFKA-14145", "KAFKA-13959"),
    34: ("KAFKA-19354",),
    35: ("KAFKA-17751", "KAFKA-19605"),
    36: ("KAFKA-14077",),
    37: ("KAFKA-19489",),
    38: ("KAFKA-20661",),
    39: ("KAFKA-14300",),
    40: ("KAFKA-14292",),
    41: ("KAFKA-13173",),
    43: ("KAFKA-17793",),
    45: ("KAFKA-14857",),
    46: ("KAFKA-14617",),
    47: ("KAFKA-13916",),
    48: ("KAFKA-19497",),
    49: ("KAFKA-14275",),
    50: ("KAFKA-15048",),
    51: ("KAFKA-16952",),
    52: ("KIP-853 TLA+",),
    53: ("KIP-996 TLA+",),
    54: ("KIP-996 (",),
    56: ("etcd #11284",),
    57: ("logcabin #44",),
    58: ("etcd #741 ",),
    59: ("etcd #7331",),
    60: ("etcd #20418",),
    61: ("etcd #14143",),
    62: ("etcd 3.5",),
    65: ("hashicorp/raft #695",),
    66: ("hashicorp/raft #697",),
    68: ("RethinkDB #5289",),
    69: ("openraft #2002",),
    70: ("Redpanda #2932",),
    72: ("redisraft #14 ",),
    73: ("redisraft #17",),
    74: ("redisraft #43",),
    75: ("canonical/raft #250",),
    76: ("CCF #5674",),
    77: ("liferaft #8",),
    79: ("RedisLabs/raft #13",),
    80: ("torn epoch cache",),
}


def row_of(source: str) -> int | None:
    """The row of a bug by its source; None when it is none of the catalogue."""
    text = f"{source} "
    return next((row for row, names in NAMES.items() if any(n in text for n in names)), None)
