"""A small message to a process that sleeps, and its answer: Warren's own sockets, and ZeroMQ's.

Between two tasks of a job there are four such messages, one after another. Each is sent after
``PAUSE_S`` of silence, as after a task; both ways in turns, so that a machine that becomes slower
favors neither. The floor is a wake-up of the kernel's.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from statistics import median
from time import monotonic_ns, sleep

import zmq
from _ranges import report

from warren.live.transport.messages import Forget
from warren.live.transport.sockets import Hub, Link, Poller

MESSAGES = 100
TURNS = 5
PAUSE_S = 0.01


def main() -> None:
    """Measure, print, and stop with an error where a figure leaves its range."""
    ways: dict[str, list[float]] = {"own": [], "zeromq": []}
    with tempfile.TemporaryDirectory(prefix="warren-bench-") as folder:
        for turn in range(TURNS):
            for name, measure in (("own", own_ns), ("zeromq", zeromq_ns)):
                ways[name].append(measure(f"{folder}/{name}-{turn}") / 1e6)
    own, other = median(ways["own"]), median(ways["zeromq"])
    print(f"there and back: {own:.3f} ms, over ZeroMQ {other:.3f} ms", flush=True)
    report({"small_message_and_answer_ms": own, "small_message_over_zeromq": own / other})


def own_ns(address: str) -> float:
    """Median over ``Link`` and ``Hub``."""
    hub, poller = Hub(address), Poller()
    poller.register(hub)
    child = _fork(lambda: _echo_own(address))
    hello: list[bytes] = []
    while not hello:  # a peer may be let in before its first words are here
        poller.poll()
        hello += [peer for peer, _, _ in hub.drain()]
    (peer,) = hello

    def once() -> None:
        hub.send(peer, Forget(1))
        poller.poll()
        assert len(list(hub.drain())) == 1

    found = _timed(once)
    os.waitpid(child, 0)
    hub.close()
    poller.close()
    return found


def _echo_own(address: str) -> None:
    link, poller = Link(address), Poller()
    poller.register(link)
    link.send(Forget(0))
    for _ in range(MESSAGES):
        poller.poll()
        for message, _ in link.drain():
            link.send(message)
    sleep(PAUSE_S)


def zeromq_ns(path: str) -> float:
    """Median over a ROUTER and a DEALER of the same messages, already encoded."""
    child = _fork(lambda: _echo_zeromq(path))
    with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
        socket.linger = 0
        socket.bind(f"ipc://{path}")
        poller = zmq.Poller()
        poller.register(socket, zmq.POLLIN)
        peer, _ = socket.recv_multipart()

        def once() -> None:
            socket.send_multipart([peer, b"a small message"])
            poller.poll()
            socket.recv_multipart()

        found = _timed(once)
    os.waitpid(child, 0)
    return found


def _echo_zeromq(path: str) -> None:
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.connect(f"ipc://{path}")
        poller = zmq.Poller()
        poller.register(socket, zmq.POLLIN)
        socket.send(b"hello")
        for _ in range(MESSAGES):
            poller.poll()
            socket.send(socket.recv())
        sleep(PAUSE_S)


def _timed(once: Callable[[], None]) -> float:
    times = []
    for _ in range(MESSAGES):
        sleep(PAUSE_S)
        begin = monotonic_ns()
        once()
        times.append(monotonic_ns() - begin)
    return median(times)


def _fork(run: Callable[[], None]) -> int:
    """A process that does this and ends."""
    if pid := os.fork():
        return pid
    try:
        run()
    finally:
        os._exit(0)


if __name__ == "__main__":
    main()
