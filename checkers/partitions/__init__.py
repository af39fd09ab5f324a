"""Judge records sent to and polled from partitions, as Jepsen's kafka workload does."""
