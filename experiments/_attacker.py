"""Somebody on the network of a testbed who does not know the run's secret.

``record``: write down what the first connections of this host send, until told to stop. ``attack``:
for so long connect to all addresses that a file names, and say what no process of Warren's does; at
the end, a line of JSON says how often what was done. Standard library and ``TlsSocket`` alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import struct
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

from warren.live.transport.tls import TlsSocket

STREAMS: Final = 40
STREAM_BYTES: Final = 20_000
HELD: Final = 400
"""So many connections at most are held open at a time."""
_IP: Final = 0x0800
_ALL: Final = 0x0003


def record(out: Path, for_s: float) -> None:
    """Write down what goes out over TCP connections that begin meanwhile."""
    end = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ALL))
    end.settimeout(0.5)
    streams: dict[tuple[str, int, int], dict[int, bytes]] = {}
    until_s = time.monotonic() + for_s
    while time.monotonic() < until_s:
        with contextlib.suppress(TimeoutError):
            packet, where = end.recvfrom(1 << 16)
            if where[1] != _IP or where[2] != socket.PACKET_OUTGOING or packet[9] != 6:
                continue
            head = (packet[0] & 15) * 4
            source, to, number, _, lengths, flags = struct.unpack_from("!HHIIBB", packet, head)
            address = socket.inet_ntoa(packet[16:20])
            payload = packet[head + (lengths >> 4) * 4 : struct.unpack_from("!H", packet, 2)[0]]
            key = address, to, source
            if flags & 2 and not flags & 16 and len(streams) < STREAMS:
                streams[key] = {}
            elif payload and key in streams:
                streams[key].setdefault(number, payload)
    rows = []
    for (address, to, _), pieces in streams.items():
        said = b"".join(pieces[number] for number in sorted(pieces))[:STREAM_BYTES]
        rows += [[address, to, said.hex()]] if said else []
    out.write_text(json.dumps(rows))


def attack(places: Path, recorded: Path, for_s: float, seed: int) -> None:
    """Do all that can be done without the secret."""
    draw, counts = random.Random(seed), Counter[str]()
    held: list[socket.socket] = []
    heard: set[str] = set()
    until_s = time.monotonic() + for_s
    while time.monotonic() < until_s:
        try:
            ways = json.loads(places.read_text())
            replays = json.loads(recorded.read_text()) if recorded.exists() else []
        except ValueError:
            continue  # it is being written
        for address, to in ways:
            mine = [row for row in replays if row[:2] == [address, to]]
            what = draw.choice([*KINDS, *(["replay"] if mine else [])])
            with contextlib.suppress(OSError):
                end = socket.create_connection((address, to), 0.5)
                heard.add(f"{address}:{to}")
                counts[what] += 1
                if what == "silent":
                    held.append(end)
                elif what == "half a handshake":
                    end.sendall(_hello()[: draw.randrange(1, 200)])
                    held.append(end)
                else:
                    with end:
                        _say(end, what, draw, mine)
            if len(held) > HELD:
                held.pop(draw.randrange(len(held))).close()
        time.sleep(0.002)
    print(json.dumps({"did": dict(counts), "ports": len(heard)}), flush=True)


def _say(end: socket.socket, what: str, draw: random.Random, mine: list[Any]) -> None:
    match what:
        case "another secret":
            stranger = TlsSocket(end, b"x" * 32, False)
            for _ in range(20):
                if stranger.handshake():
                    raise SystemExit("a stranger was let in")
                time.sleep(0.005)
        case "replay":
            end.sendall(bytes.fromhex(draw.choice(mine)[2]))
            time.sleep(0.01)
        case "oversize frame":
            end.sendall(struct.pack("<IQ", 1, 1 << 40) + os.urandom(1 << 16))
        case "oversize record":
            end.sendall(b"\x16\x03\x01\xff\xff" + os.urandom(1 << 16))
        case "HTTP":
            end.sendall(b"POST /api HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n")
        case "noise":
            end.sendall(os.urandom(draw.choice([1, 100, 100_000])))
        case _:
            return


def _hello() -> bytes:
    """What somebody says first who speaks TLS."""
    one, other = socket.socketpair()
    with one, other:
        TlsSocket(one, b"x" * 32, False)
        return other.recv(4096)


KINDS: Final = (
    "silent", "half a handshake", "another secret", "oversize frame", "oversize record", "HTTP",
    "noise", "nothing",
)  # fmt: skip

if __name__ == "__main__":
    if sys.argv[1] == "record":
        record(Path(sys.argv[2]), float(sys.argv[3]))
    else:
        attack(Path(sys.argv[2]), Path(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]))
