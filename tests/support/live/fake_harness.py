"""A harness that starts a cluster, installs faults and then waits to be killed.

Run as a process: ``fake_harness.py FOLDER [unjournalled]``. It says ``ready`` with the pids of
what it started. With ``unjournalled`` its journal is gone, as when it died before the first line.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from tests.support.live.cluster import echo_cluster, environment_of


async def main(folder: Path, *, journalled: bool) -> None:
    async with echo_cluster(folder) as cluster:
        environment = environment_of(cluster)
        await environment.net.cut([("n1", "n2")])
        await environment.signal("n3", 19)
        relay, watchdog = environment._relay._process, environment._watchdog.pid
        assert relay is not None
        assert watchdog is not None
        pids = [environment.process(node).pid for node in cluster.system.nodes]
        if not journalled:
            (folder / "state" / "test-run.jsonl").unlink()
        said = {"nodes": pids, "relay": relay.pid, "watchdog": watchdog}
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), journalled=len(sys.argv) == 2))
