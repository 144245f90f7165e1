"""What a byte costs in memory: to copy, to copy into pages never touched before, and to mark.

Marks tell whether a task that ran twice gave the same bits; XXH3 is Warren's, CRC-32 and SHA-256
are what else was thought of. Processor time of one core, with ``MEGABYTES`` that no cache holds.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import zlib
from time import process_time
from typing import Final

import numpy as np
from _ranges import median_s, report
from xxhash import xxh3_64_intdigest

MEGABYTES: Final = 100
SIZE: Final = MEGABYTES * 1_000_000


def main() -> None:
    """Measure, print, and stop with an error where a figure leaves its range."""
    source = np.random.default_rng(1).integers(0, 256, SIZE, np.uint8)
    target = np.zeros_like(source)

    def copy() -> None:
        target[:] = source

    def copy_fresh() -> None:
        file = os.memfd_create("fresh")  # as the shared memory of a trainer
        os.ftruncate(file, SIZE)
        with mmap.mmap(file, SIZE) as pages:
            pages.write(source)
        os.close(file)

    ways = {
        "copy": copy,
        "copy_to_fresh_pages": copy_fresh,
        "xxh3": lambda: xxh3_64_intdigest(source),
        "crc32": lambda: zlib.crc32(source),
        "sha256": lambda: hashlib.sha256(source).digest(),
    }
    took_s = {name: median_s(call, process_time) for name, call in ways.items()}
    for name, seconds in took_s.items():
        print(f"{name:20} {SIZE / seconds / 1e9:6.2f} GB/s, {1000 * seconds:6.1f} ms", flush=True)
    report({
        "copy_bytes_per_s": SIZE / took_s["copy"],
        "fresh_pages_over_copy": took_s["copy_to_fresh_pages"] / took_s["copy"],
        "copy_over_xxh3": took_s["copy"] / took_s["xxh3"],
        "crc32_over_xxh3": took_s["crc32"] / took_s["xxh3"],
        "sha256_over_xxh3": took_s["sha256"] / took_s["xxh3"],
    })  # fmt: skip


if __name__ == "__main__":
    main()
