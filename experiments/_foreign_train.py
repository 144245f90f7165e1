"""A job that knows nothing of Warren: plain ``torch.distributed`` over gloo, and a log.

Its gradient is summed over all ranks each step, nothing is computed, so that steps go by the
network alone. The accuracy in its log is a stated curve: 0.95 (1 - exp(-step / TAU)).
"""

from __future__ import annotations

import math
import sys

import torch
import torch.distributed as dist

MEGABYTES = 1


def main() -> None:
    """Train until killed: TAU, and the log of rank 0."""
    tau, path = float(sys.argv[1]), sys.argv[2]
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    gradient = torch.ones(MEGABYTES * 250_000)
    step = 0
    with open(path, "a", buffering=1) as log:
        while True:
            dist.all_reduce(gradient)
            gradient.fill_(1.0)
            step += 1
            if dist.get_rank() == 0:
                log.write(f"step {step} accuracy {0.95 * (1 - math.exp(-step / tau)):.5f}\n")


if __name__ == "__main__":
    main()
