"""Sends every message back until an empty one comes. ``python _echo.py ADDRESS``."""

from __future__ import annotations

import sys

import zmq


def main() -> None:
    """Echo."""
    with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
        socket.linger = 0
        socket.sndhwm = socket.rcvhwm = 0
        socket.bind(sys.argv[1])
        while True:
            peer, payload = socket.recv_multipart(copy=False)
            if len(payload.buffer) == 0:
                return
            socket.send_multipart([peer, payload], copy=False)


if __name__ == "__main__":
    main()
