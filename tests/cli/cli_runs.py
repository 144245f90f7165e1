"""Small run files, and the command called in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from warren.cli.main import call

CHECKOUT = Path(__file__).resolve().parents[2]
QUICKSTART = CHECKOUT / "examples" / "quickstart" / "run.yaml"
ROUND_ROBIN = f"{CHECKOUT}/examples/policies/round_robin.py:RoundRobin"

CLUSTER = """\
format: 1
hosts:
  - {name: v, count: 1, devices: {V100: 2}, memory: 244 GB, nic: 25 Gbps}
  - {name: k, count: 1, devices: {K80: 1}, memory: 61 GB, nic: 10 Gbps}
device_types: {V100: {memory: 16 GB}, K80: {memory: 12 GB}}
network: {model: constant}
engine: local
emulate: {time_scale: 0.001}
"""
JOBS = f"""\
format: 1
jobs:
  - {{name: a, app: {CHECKOUT}/tests/cli/drawn_apps.py:Sides, model: graphsage, scale: 2,
      rounds: 6, batch: 16, weight: 2.0}}
  - {{name: b, app: {CHECKOUT}/tests/cli/drawn_apps.py:Line, model: fastgcn, scale: 3,
      rounds: 8, batch: 64, arrival: 1 s, user: ana}}
  - {{name: c, app: {CHECKOUT}/tests/cli/drawn_apps.py:Largest, model: resnet50, scale: 1,
      rounds: 9, batch: 32, arrival: 2 s, seed: 7, evaluate: {{every: 3}}}}
"""
RUN = """\
format: 1
name: tiny
cluster: cluster.yaml
workload: {jobs: jobs.yaml}
scheduler: {place: srtf}
grain: 1
seed: 1
"""


class Told(NamedTuple):
    """What a command answered: exit code, standard output, lines of standard error."""

    code: int
    out: str
    err: list[str]

    @property
    def json(self) -> Any:
        """Standard output, which must be JSON and nothing else."""
        return json.loads(self.out)

    @property
    def complaint(self) -> str:
        """The one line that was complained."""
        assert len(self.err) == 1, self.err
        assert self.err[0].startswith("warren: ")
        return self.err[0].removeprefix("warren: ")


def write_run(folder: Path, *, run: str = RUN, jobs: str = JOBS, cluster: str = CLUSTER) -> str:
    """Write the three files; gives the path of the run file."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("run.yaml", run), ("jobs.yaml", jobs), ("cluster.yaml", cluster)):
        (folder / name).write_text(text)
    return str(folder / "run.yaml")


class Warren:
    """Calls the command in this process and captures what it prints."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str | Path) -> Told:
        """Run one command line."""
        self._capsys.readouterr()
        code = call([str(one) for one in arguments])
        out, err = self._capsys.readouterr()
        # Whether kernels were compiled before is not this run's: another test may come first.
        lines = [one for one in err.splitlines() if "compiling kernels" not in one]
        return Told(code, out, lines)
