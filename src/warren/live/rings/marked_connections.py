"""The TCP connections of a ring's rank, which its library made: found and marked by class.

gloo gives no access to its sockets, so they are looked up among the open files of the process.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator

from warren.live import flow_marks


def mark_connections(flow_class: int) -> int:
    """Mark this process's traffic to others over TCP, and return the number of connections.

    Connections on loopback pass no link and are not marked.
    """
    count = 0
    for end in _connections():
        flow_marks.mark(end, flow_class)
        count += 1
    return count


def _connections() -> Iterator[socket.socket]:
    """Yield every connected IPv4 TCP socket of this process, each as a copy that is closed after.

    A mark belongs to the connection, not to the file that it is set through.
    """
    for name in os.listdir("/proc/self/fd"):
        # The folder itself was open while it was listed, and is not any more.
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                with socket.socket(fileno=os.dup(int(name))) as end:
                    if end.family == socket.AF_INET and end.type == socket.SOCK_STREAM:
                        # Raises if it is not connected, as a listening one.
                        address: str = end.getpeername()[0]
                        if not address.startswith("127."):
                            yield end
