"""The agent's command line: ``supervise``, ``keep``, ``order JSON``, ``queue FOLDER SEED QUEUES``.

The archive that runs on ssh hosts and in holders begins here. Each verb imports what it needs: an
order is started often, and reads nothing of the supervisor.
"""

from __future__ import annotations

import sys

_USAGE = "usage: agent supervise | keep | order JSON | queue FOLDER SEED QUEUES"


def main() -> None:
    """Do what the arguments say; exits with a usage line when they say nothing of ours."""
    match sys.argv[1:]:
        case ["supervise"]:
            from harness.agent import supervisor  # noqa: PLC0415 - see the top

            supervisor.run(sys.argv[0])
        case ["keep"]:
            from harness.agent import keeper  # noqa: PLC0415

            keeper.run(sys.argv[0])
        case ["order", order]:
            from harness.agent import orders  # noqa: PLC0415

            orders.run(order)
        case ["queue", folder, seed, queues]:
            from harness.agent import packets  # noqa: PLC0415

            packets.run(folder, seed, queues)
        case _:
            sys.exit(_USAGE)


if __name__ == "__main__":
    main()
