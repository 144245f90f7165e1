"""What TLS costs on a connection between hosts: processor time of both ends, against the same in
the clear.

One thread has both ends of a TCP connection on loopback, so that its processor time is all that is
spent; plain and encrypted in turns. The floor of a large frame is its encryption and decryption
alone, in records of 16 KiB.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from time import process_time

from _ranges import RUNS, report
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from warren.live.transport.frames import Stream
from warren.live.transport.tls import TlsSocket

SECRET = os.urandom(32)
RECORD_BYTES = 1 << 14
SIZES = {100: 3000, 10_000_000: 25}
"""Bytes of a frame's buffer, and how many are sent."""


def main() -> None:
    """Measure, print, and stop with an error where a figure leaves its range."""
    spent = {(size, tls): list[float]() for size in SIZES for tls in (False, True)}
    for _ in range(RUNS):
        for size, tls in spent:
            spent[size, tls].append(frame_s(size, SIZES[size], tls))
    (small, small_tls), (large, large_tls) = (
        [median(spent[size, tls]) for tls in (False, True)] for size in SIZES
    )
    extra = (large_tls - large) / max(SIZES)
    floor = median(cipher_s() for _ in range(RUNS))
    print(f"100 bytes: {small * 1e6:.1f} us, encrypted {small_tls * 1e6:.1f} us")
    print(f"10 MB: {large * 1e3:.1f} ms, encrypted {large_tls * 1e3:.1f} ms")
    print(f"encryption adds {extra * 1e9:.2f} ns a byte; the cipher alone {floor * 1e9:.2f} ns")
    report(
        {"encrypted_small_over_plain": small_tls / small, "encryption_over_cipher": extra / floor}
    )


def frame_s(size: int, frames: int, tls: bool) -> float:
    """Processor seconds of both ends for a frame with a buffer of so many bytes."""
    buffer = memoryview(bytes(size))
    with select.epoll() as epoll, connection(tls) as (one, two):
        for end in (one, two):
            end.watch(epoll)
        sent = got = 0
        begin = process_time()
        while got < frames:
            if sent < frames and sent == got:
                one.send(b"h", (buffer,))
                sent += 1
            for fd, _ in epoll.poll(1):
                if fd == one.fileno():
                    assert not list(one.drain())
                else:
                    got += len(list(two.drain()))
        return (process_time() - begin) / frames


@contextmanager
def connection(tls: bool) -> Iterator[tuple[Stream, Stream]]:
    """Both ends of a connection whose handshake is done."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sockets = socket.create_connection(listener.getsockname()), listener.accept()[0]
    for end in sockets:
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end.setblocking(False)
    one, two = (
        Stream(TlsSocket(end, SECRET, accepted) if tls else end)
        for end, accepted in zip(sockets, (False, True), strict=True)
    )
    one.send(b"hello")
    heard = 0
    while not heard:
        assert not list(one.drain())
        heard += len(list(two.drain()))
    try:
        yield one, two
    finally:
        one.close()
        two.close()


def cipher_s() -> float:
    """Processor seconds to encrypt and decrypt a byte by the cipher of these connections."""
    cipher, record, count = AESGCM(os.urandom(32)), os.urandom(RECORD_BYTES), 600
    begin = process_time()
    for number in range(count):
        nonce = number.to_bytes(12, "little")
        cipher.decrypt(nonce, cipher.encrypt(nonce, record, None), None)
    return (process_time() - begin) / (count * RECORD_BYTES)


if __name__ == "__main__":
    main()
