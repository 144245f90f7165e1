"""One end of a flow whose rate is measured, inside a host.

Started by the path of this file, with ``receive`` or ``send ADDRESS PORT``; it imports nothing of
Warren's, so that it is small. The receiver prints the port it listens on, then that a sender is
connected. It reads a start and an end (monotonic ns, which all hosts of a machine share), and
prints the number of bytes that came between, and in how many ns. The sender sends. Both end with
their standard input.
"""

from __future__ import annotations

import select
import socket
import sys
import time

_CHUNK = 1 << 18
"""Bytes that are handed to, or taken from, the kernel at once."""


def main() -> None:
    """Send or receive, as the first argument says."""
    if sys.argv[1] == "send":
        send(sys.argv[2], int(sys.argv[3]))
    else:
        receive()


def send(address: str, port: int) -> None:
    """Send until standard input ends, or the receiver has gone."""
    data = bytes(_CHUNK)
    with socket.create_connection((address, port), timeout=5.0) as flow:
        flow.setblocking(False)
        while True:
            ordered, free, _ = select.select([sys.stdin], [flow], [])
            if ordered:
                return
            if free:
                try:
                    flow.send(data)
                except BlockingIOError:
                    pass
                except OSError:
                    return


def receive() -> None:
    """Count the bytes of one sender in the time that standard input names."""
    with socket.create_server(("0.0.0.0", 0)) as server:  # noqa: S104  # of a host of its own
        print(server.getsockname()[1], flush=True)
        ready, _, _ = select.select([server, sys.stdin], [], [])
        if server not in ready:
            return
        flow, _ = server.accept()
    print("connected", flush=True)
    # ``begin_ns`` to ``end_ns`` is the time that was asked for, 0 until it is; ``since_ns`` is the
    # first arrival in it, from which bytes are counted.
    begin_ns = end_ns = 0
    count, since_ns = 0, 0
    while True:
        ready, _, _ = select.select([flow, sys.stdin], [], [])
        if sys.stdin in ready:
            words = sys.stdin.readline().split()
            if not words or end_ns:
                return
            begin_ns, end_ns = map(int, words)
        if flow in ready:
            got = len(flow.recv(_CHUNK))
            now_ns = time.monotonic_ns()
            if not got:
                return
            # The bytes of the first arrival do not count: they took time before it.
            if since_ns:
                count += got
            elif end_ns and now_ns >= begin_ns:
                since_ns = now_ns
            if since_ns and now_ns >= end_ns:
                print(count, now_ns - since_ns, flush=True)
                flow.close()
                return


if __name__ == "__main__":
    main()
