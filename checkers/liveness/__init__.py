"""Judge what must come true once faults are healed, one file per invariant."""
