"""Delays, loses, doubles, damages, holds back, throttles packets of links where there is no netem.

Runs inside a node's network, a process of its own: firewall rules hand it the packets of a link
(NFQUEUE, one queue for each source), it decides when and whether each goes on. It obeys
``shape.json`` in a folder that it shares with the harness, and tells what it did in
``counters.json``; both are replaced whole. When it dies, the rules let everything through.

Source of the message layout: linux/netfilter/nfnetlink_queue.h.
"""

from __future__ import annotations

import heapq
import json
import random
import select
import socket
import struct
import time
from pathlib import Path
from typing import NamedTuple

_NETLINK_NETFILTER = 12
_SUBSYSTEM = 3 << 8
_PACKET, _VERDICT, _CONFIG = 0, 1, 2
_CFG_CMD, _CFG_PARAMS, _CFG_MAXLEN = 1, 2, 3
_BIND, _COPY_PACKET = 1, 2
_A_PACKET_HDR, _A_VERDICT_HDR, _A_PAYLOAD = 1, 2, 10
_REQUEST, _REQUEST_ACK, _NLMSG_ERROR = 1, 5, 2
_DROP, _ACCEPT = 0, 1
_HEADER = struct.Struct("=IHHII")  # netlink: length, type, flags, sequence, port
_IP_BYTES = 20  # of each packet: its length is in there
_ALL_BYTES = 0xFFFF  # of each packet, while some are to be doubled or damaged
_QUEUE_MAX = 16_384  # packets held of one source; more are lost, as in any queue
_RECEIVE_BYTES = 1 << 22
_MESSAGE_BYTES = 1 << 17  # the longest packet, and what is around it
_POLL_S = 0.01
_TELL_S = 0.005


class Link:
    """The treatment of packets from one source, and counts of what became of them."""

    def __init__(self) -> None:
        self.shape: dict[str, float] = {}
        self.last_s = 0.0  # when the last one in order goes on
        self.free_s = 0.0  # when the narrow link has sent all before
        self.counters = {"passed": 0, "lost": 0, "kept_back": 0, "held": 0, "bytes": 0}
        self.counters |= {"duplicated": 0, "corrupted": 0}

    def due_s(self, now_s: float, size: int, rng: random.Random) -> float | None:
        """Tell when a packet goes on; None: never. Those not kept back stay in order."""
        shape = self.shape
        if rng.random() < shape.get("loss", 0.0):
            return None
        due_s = now_s + shape.get("delay_ms", 0) / 1e3
        due_s += rng.random() * shape.get("jitter_ms", 0) / 1e3
        if shape.get("bytes_per_s"):
            self.free_s = max(self.free_s, now_s) + size / shape["bytes_per_s"]
            due_s = max(due_s, self.free_s)
        if shape.get("jam_ms"):
            turn_s = shape["jam_ms"] / 1e3
            due_s = (due_s // turn_s + 1) * turn_s
        if rng.random() < shape.get("keep_back", 0.0):
            self.counters["kept_back"] += 1
            return due_s + rng.random() * shape.get("late_ms", 0) / 1e3
        self.last_s = max(self.last_s, due_s)
        return self.last_s

    def has(self, chance: str, rng: random.Random) -> bool:
        """Tell whether it happens to a packet."""
        share = self.shape.get(chance, 0.0)
        return bool(share) and rng.random() < share


class Held(NamedTuple):
    """A packet that waits for its time."""

    due_s: float
    packet: int
    queue: int
    source: str
    content: bytes  # empty: what came
    twice: bool


class Shaper:
    """All queues of one node."""

    def __init__(self, folder: Path, seed: str, queues: dict[str, int]) -> None:
        self._folder = folder
        self._rng = random.Random(seed)
        self._links = {source: Link() for source in queues}
        self._sources = {queue: source for source, queue in queues.items()}
        self._held: list[Held] = []
        self._twice: socket.socket | None = None
        self._bytes = _IP_BYTES
        self._version = -1
        self._stamp: object = None
        self._told_s = 0.0
        self._changed = True
        self._sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_NETFILTER)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
        self._sock.bind((0, 0))
        for queue in self._sources:
            self._configure(queue)

    def run(self) -> None:
        """Work for ever."""
        while True:
            self._obey()
            now_s = time.monotonic()
            wait_s = _POLL_S if not self._held else min(_POLL_S, self._held[0].due_s - now_s)
            if select.select([self._sock], [], [], max(0.0, wait_s))[0]:
                self._receive()
            self._release(time.monotonic())
            self._tell()

    def _configure(self, queue: int) -> None:
        for attribute in (
            _attribute(_CFG_CMD, struct.pack(">BxH", _BIND, socket.AF_INET)),
            _attribute(_CFG_PARAMS, struct.pack(">IB", _IP_BYTES, _COPY_PACKET)),
            _attribute(_CFG_MAXLEN, struct.pack(">I", _QUEUE_MAX)),
        ):
            self._send(_CONFIG, queue, attribute, _REQUEST_ACK)
            answer = self._sock.recv(8192)
            code = struct.unpack_from("=i", answer, _HEADER.size)[0]
            if code:
                raise OSError(-code, f"cannot configure queue {queue}")

    def _obey(self) -> None:
        """Read what is wanted, when it has changed; what is held of a plain link goes on."""
        path = self._folder / "shape.json"
        try:
            stamp = path.stat().st_ino
        except FileNotFoundError:
            return
        if stamp == self._stamp:
            return
        wanted = json.loads(path.read_text(encoding="utf-8"))
        self._stamp, self._version, self._changed = stamp, wanted["version"], True
        for source, link in self._links.items():
            link.shape = wanted["links"].get(source, {})
            link.free_s = link.last_s = 0.0
        self._held = [
            held if self._links[held.source].shape else held._replace(due_s=0.0)
            for held in self._held
        ]
        heapq.heapify(self._held)
        self._prepare([link.shape for link in self._links.values()])

    def _prepare(self, shapes: list[dict[str, float]]) -> None:
        """Ask for whole packets, and for a way to send them, as long as that is wanted."""
        doubles = any(shape.get("duplicate") for shape in shapes)
        if doubles and self._twice is None:
            self._twice = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
        wanted = _ALL_BYTES if doubles or any(s.get("corrupt") for s in shapes) else _IP_BYTES
        if wanted != self._bytes:
            self._bytes = wanted
            params = _attribute(_CFG_PARAMS, struct.pack(">IB", wanted, _COPY_PACKET))
            for queue in self._sources:
                self._send(_CONFIG, queue, params, _REQUEST)

    def _receive(self) -> None:
        data, now_s = self._sock.recv(_MESSAGE_BYTES), time.monotonic()
        while len(data) >= _HEADER.size:
            length, kind = _HEADER.unpack_from(data)[:2]
            if kind == _SUBSYSTEM | _PACKET:
                self._decide(data[_HEADER.size : length], now_s)
            data = data[(length + 3) & ~3 :]

    def _decide(self, body: bytes, now_s: float) -> None:
        queue = int(struct.unpack_from(">H", body, 2)[0])
        attributes = _attributes(body[4:])
        packet = int(struct.unpack_from(">I", attributes[_A_PACKET_HDR])[0])
        size = int(struct.unpack_from(">H", attributes[_A_PAYLOAD], 2)[0])
        source = self._sources[queue]
        link = self._links[source]
        due_s = link.due_s(now_s, size, self._rng)
        self._changed = True
        if due_s is None:
            link.counters["lost"] += 1
            self._verdict(packet, queue, _DROP)
            return
        link.counters["held"] += due_s > now_s
        link.counters["bytes"] += size
        content = attributes[_A_PAYLOAD]
        whole = len(content) == size  # when it began to be wanted, some were on their way
        damaged = whole and link.has("corrupt", self._rng)
        if damaged:
            content = _damage(content, self._rng)
            link.counters["corrupted"] += 1
        twice = whole and link.has("duplicate", self._rng)
        link.counters["duplicated"] += twice
        changed = content if damaged or twice else b""
        heapq.heappush(self._held, Held(due_s, packet, queue, source, changed, twice))

    def _release(self, now_s: float) -> None:
        while self._held and self._held[0].due_s <= now_s:
            held = heapq.heappop(self._held)
            self._links[held.source].counters["passed"] += 1
            self._verdict(held.packet, held.queue, _ACCEPT, held.content)
            self._changed = True
            if held.twice and self._twice is not None:  # over lo, where no rule of ours looks
                self._twice.sendto(held.content, (socket.inet_ntoa(held.content[16:20]), 0))

    def _verdict(self, packet: int, queue: int, verdict: int, content: bytes = b"") -> None:
        """Tell the kernel to pass a packet on, with new content if there is any, or to drop it."""
        attributes = _attribute(_A_VERDICT_HDR, struct.pack(">II", verdict, packet))
        if content:
            attributes += _attribute(_A_PAYLOAD, content)
        self._send(_VERDICT, queue, attributes, _REQUEST)

    def _send(self, kind: int, queue: int, attributes: bytes, flags: int) -> None:
        body = struct.pack(">BBH", socket.AF_INET, 0, queue) + attributes
        length = _HEADER.size + len(body)
        self._sock.send(_HEADER.pack(length, _SUBSYSTEM | kind, flags, 0, 0) + body)

    def _tell(self) -> None:
        now_s = time.monotonic()
        if not self._changed or now_s < self._told_s + _TELL_S:
            return
        self._told_s, self._changed = now_s, False
        told = {
            "version": self._version,
            "links": {source: link.counters for source, link in self._links.items()},
        }
        draft = self._folder / "counters.draft"
        draft.write_text(json.dumps(told), encoding="utf-8")
        draft.replace(self._folder / "counters.json")


def _damage(packet: bytes, rng: random.Random) -> bytes:
    """Flip a bit behind the IP header, which was looked at before it came to us."""
    begin = 8 * 4 * (packet[0] & 0x0F)
    bit = rng.randrange(begin, max(begin + 1, 8 * len(packet)))
    found = bytearray(packet)
    if bit < 8 * len(packet):
        found[bit // 8] ^= 1 << bit % 8
    return bytes(found)


def _attribute(kind: int, payload: bytes) -> bytes:
    data = struct.pack("=HH", 4 + len(payload), kind) + payload
    return data + b"\0" * (-len(data) % 4)


def _attributes(data: bytes) -> dict[int, bytes]:
    found = {}
    while len(data) >= 4:  # noqa: PLR2004 - an attribute's header
        length, kind = struct.unpack_from("=HH", data)
        found[kind & 0x3FFF] = data[4:length]
        data = data[max(4, (length + 3) & ~3) :]
    return found


def run(folder: str, seed: str, queues: str) -> None:
    """Treat packets for ever; ``queues`` is ``{source: queue}`` as JSON."""
    Shaper(Path(folder), seed, json.loads(queues)).run()
