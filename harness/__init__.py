"""The kernel of krucible: ops, histories, generators, runner, registry, store and environments."""
