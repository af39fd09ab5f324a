"""Clients that wait for nodes: the first write that anyone acknowledges, and that all is quiet."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Iterable
from typing import Any

from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.static.primitive import i8

from bench.support.quorum import HOST, Quorum, cpu_s
from node.core.messages import DescribeQuorumRequest, DescribeQuorumResponse
from node.core.types import Endpoint
from node.wire import codec
from node.wire.connection import Connection
from node.wire.errors import WireError

BROKER_RESOURCE = 4
SET = 0
RETRY_S = 0.01
REQUEST_TIMEOUT_S = 60.0
QUIET_CPU = 0.1  # share of one CPU that a node uses at most when it has nothing left to load
LAG_MAX = 2  # records; NoOps come all the time


async def connect(port: int) -> Connection:
    """A connection to whoever listens there; raises WireError."""
    connection = await Connection.open(Endpoint(HOST, port), connect_timeout_s=REQUEST_TIMEOUT_S)
    await connection.negotiate(REQUEST_TIMEOUT_S)
    return connection


def set_config(name: str, value: str) -> IncrementalAlterConfigsRequest:
    """A write that any cluster takes, and that touches nothing else: a default of all brokers."""
    change = AlterableConfig(name=name, config_operation=i8(SET), value=value)
    resource = AlterConfigsResource(
        resource_type=i8(BROKER_RESOURCE), resource_name="", configs=(change,)
    )
    return IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)


async def first_commit(quorum: Quorum, nodes: Iterable[int], value: int) -> int:
    """Ask all ``nodes`` to write, again and again; the one that says it is committed."""

    async def ask(node: int) -> int:
        while True:
            try:
                connection = await connect(quorum.ports[node])
            except WireError:
                await asyncio.sleep(RETRY_S)
                continue
            try:
                while True:
                    request = set_config("log.retention.ms", str(value))
                    answer: Any = await connection.request(request, timeout_s=REQUEST_TIMEOUT_S)
                    if int(answer.responses[0].error_code) == 0:
                        return node
                    await asyncio.sleep(RETRY_S)
            except WireError:
                continue
            finally:
                connection.close()

    tasks = [asyncio.create_task(ask(node)) for node in nodes]
    done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
    return done.pop().result()


async def all_caught_up(quorum: Quorum, leader: int) -> None:
    """Wait until every voter has the leader's log and no node has anything left to load."""
    connection = await connect(quorum.ports[leader])
    asked = DescribeQuorumRequest()
    try:
        while True:
            answer = codec.response_from_wire(
                await connection.request(codec.request_to_wire(asked, 2), REQUEST_TIMEOUT_S), asked
            )
            assert isinstance(answer, DescribeQuorumResponse)
            ends = [voter.log_end_offset or 0 for voter in answer.voters]
            if len(ends) == len(quorum.ports) and min(ends) >= max(ends) - LAG_MAX:
                break
            await asyncio.sleep(0.1)
    finally:
        connection.close()
    for process in quorum.processes.values():
        await quiet(process)


async def quiet(process: subprocess.Popen[bytes], interval_s: float = 0.5) -> None:
    """Wait until a node is idle."""
    while True:
        before, began = cpu_s(process), time.perf_counter()
        await asyncio.sleep(interval_s)
        if cpu_s(process) - before < QUIET_CPU * (time.perf_counter() - began):
            return
