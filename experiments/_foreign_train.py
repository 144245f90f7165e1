"""A job that knows nothing of Warren: plain ``torch.distributed`` over gloo, and a log.

Its gradient is summed over all ranks each step, nothing is computed, so that steps go by the
network alone, or by a stated pause. The accuracy in its log is a stated curve:
0.95 (1 - exp(-step / TAU)). Beside the log, a file has a byte a step, whenever lines come.
"""

from __future__ import annotations

import math
import sys
import time

import torch
import torch.distributed as dist

MEGABYTES = 1


def main() -> None:
    """Train until killed: TAU, log of rank 0, s between lines, first step, s of pause a step."""
    tau, path, every_s = float(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    first, pause_s = int(sys.argv[4]), float(sys.argv[5])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    gradient = torch.ones(MEGABYTES * 250_000)
    step, logged_s = first, -math.inf
    with open(path, "a", buffering=1) as log, open(f"{path}.steps", "ab", buffering=0) as steps:
        while True:
            dist.all_reduce(gradient)
            gradient.fill_(1.0)
            time.sleep(pause_s)
            step += 1
            if dist.get_rank() > 0:
                continue
            steps.write(b".")
            if time.monotonic() - logged_s >= every_s:
                logged_s = time.monotonic()
                log.write(f"step {step} accuracy {0.95 * (1 - math.exp(-step / tau)):.5f}\n")


if __name__ == "__main__":
    main()
