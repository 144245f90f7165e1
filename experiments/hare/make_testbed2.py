"""Write the workloads of fidelity's case (c) that are drawn: ten jobs each, by the seeds 1 and 2.

Nets, batches and widths are those of testbed2-jobs.yaml, which was written by hand; which net, how
many tasks a round, how much work, weight and arrival are drawn. A job takes 3 to 7 s of one core,
by the tasks of ``TASK_S`` (which only sets rounds: what is predicted counts with times measured
anew), and all of them, on two cores, about as long as they arrive. Nothing is simulated here, and
no seed is left out.

Writes ``testbed2-drawn1.yaml``, ``testbed2-drawn1-jobs.yaml`` and those of 2; ``--check`` only says
whether the committed files are the same.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any, Final

SEEDS: Final = (1, 2)
JOBS: Final = 10
ARRIVE_S: Final = 22.0
WORK_S: Final = (3.0, 7.0)
HERE: Final = Path(__file__).parent
APPS: Final = "../../examples/apps"
NETS: Final[tuple[tuple[str, str, dict[str, Any], int], ...]] = (
    ("gru", "charlm.py:CharLM", {"width": 128}, 256),
    ("gru", "charlm.py:CharLM", {"width": 192}, 128),
    ("cnn", "digits.py:DigitsCNN", {"channels": 32}, 512),
    ("cnn", "digits.py:DigitsCNN", {"channels": 48}, 256),
    ("cnn", "digits.py:DigitsCNN", {"channels": 64}, 256),
    ("mlp", "digits.py:Digits", {"hidden": 4096, "lr": 0.05}, 1024),
)
TASK_S: Final = (0.043, 0.041, 0.026, 0.021, 0.028, 0.032)
RUN: Final = """\
# Made by make_testbed2.py; what the fields mean stands in testbed2.yaml.
format: 1
name: testbed2-drawn{seed}
cluster:
  format: 1
  hosts:
    - {{name: h, devices: {{CPU: 2}}}}
  network: {{model: lane}}
  engine: local
  local: {{pin: true}}
  overheads: testbed2-machine.yaml
workload: {{jobs: testbed2-drawn{seed}-jobs.yaml}}
scheduler: {{place: hare}}
grain: 1
seed: 1
truth: {{task_cv: 0.09, seed: 1}}
"""


def main() -> None:
    """Write the files, or compare them."""
    wrong = []
    for name, text in files().items():
        path = HERE / name
        if "--check" not in sys.argv[1:]:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            wrong.append(f"{path} is not what this program makes")
    if wrong:
        sys.exit("\n".join(wrong))


def files() -> dict[str, str]:
    """The text of each file by its name."""
    found = {}
    for seed in SEEDS:
        found[f"testbed2-drawn{seed}.yaml"] = RUN.format(seed=seed)
        lines = "".join(f"  - {json.dumps(job)}\n" for job in drawn(seed))
        head = f"# Made by make_testbed2.py with seed {seed}; what is drawn how stands there.\n"
        found[f"testbed2-drawn{seed}-jobs.yaml"] = f"{head}format: 1\njobs:\n{lines}"
    return found


def drawn(seed: int) -> list[dict[str, Any]]:
    """The jobs of a seed."""
    draw = random.Random(f"testbed2-{seed}")
    arrivals_s = sorted(draw.uniform(0, ARRIVE_S) for _ in range(JOBS))
    jobs = []
    for at, arrival_s in enumerate(arrivals_s):
        net = draw.randrange(len(NETS))
        kind, app, params, batch = NETS[net]
        scale = draw.choice((1, 1, 1, 2, 2, 3, 4))
        rounds = round(draw.uniform(*WORK_S) / (scale * TASK_S[net]))
        jobs.append({
            "name": f"{kind}-{at}", "app": f"{APPS}/{app}", "params": params, "batch": batch,
            "scale": scale, "rounds": rounds, "weight": draw.randint(1, 4),
            "arrival": f"{arrival_s - arrivals_s[0]:.2f} s",
        })  # fmt: skip
    return jobs


if __name__ == "__main__":
    main()
