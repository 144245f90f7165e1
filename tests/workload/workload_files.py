"""Valid input files in memory, as the documentation shows them, and a reader of them."""

from __future__ import annotations

from collections.abc import Mapping

from warren.workload.text import Reader

RUN = """\
format: 1
cluster: cluster.yaml
workload: {jobs: jobs.csv}
scheduler: {place: hare, flow: fair, group: isolated, shape: static, servers: 2}
profiles: extra.yaml
policy: {kappa: 2}
truth: {task_cv: 0.05, job_cv: 0.1, seed: 3}
grain: 60 s
seed: 1
"""
CLUSTER = """\
format: 1
hosts:
  - {name: v, count: 2, devices: {V100: 4}, memory: 244 GB, nic: 25 Gbps, intra: 300 Gbps, disk: 1 GB/s}
  - {name: t, devices: {T4: 2, K80: 1}, memory: 192 GB, nic: 10 Gbps}
device_types: {V100: {memory: 16 GB}, T4: {memory: 16 GB}, K80: {}}
network: {model: constant}
engine: local
emulate: {time_scale: 0.05, jitter: times/j.npy, slower: {T4: 1.2}}
local: {look_ahead: 4, pin: true, memory: 2 GB}
overheads: machine.yaml
"""  # noqa: E501
JOBS_CSV = """\
job,arrival_s,model,batch,scale,rounds,weight,sync,user,group,app,seed
late,10,my-model,32,4,600,2.0,ps,ana,lr-search,,7
early,0.5,resnet50,64,2,100,1,ps,,,,
own,0,,8,1,50,,,,,apps/own.py:Own,
"""
JOBS_YAML = """\
format: 1
jobs:
  - name: digits-mlp
    app: apps/digits.py:Digits
    model: resnet50
    sync: ps
    scale: 4
    rounds: 600
    batch: 32
    weight: 2.0
    arrival: 10 s
    user: ana
    group: lr-search
    seed: 7
    numerics: strict
    evaluate: {every: 50}
    stop: {metric: accuracy, reaches: 0.97}
    checkpoint: {every: 100}
    task_limit: 20 s
    params: {lr: 0.1, layers: [64, 32], note: "é \\u2028"}
  - {name: second, model: vgg19, scale: 2, batch: 128}
"""
JOB_YAML = """\
format: 1
name: one
model: resnet50
scale: 2
rounds: 30
batch: 64
arrival: 2 min
"""
EXTRA = """\
format: 1
my-model: {model: 98 MB, memory: 6 GB, batch: 32, comp: {V100: 152 ms, T4: 0.5}, sync: {V100: 20 ms}}
"""  # noqa: E501

MACHINE = """\
format: 1
machine: {processor: some, system: Linux}
constants:
  cores: 2
  dispatch: 120 us
  task_cpu: 0.4 ms
  round_cpu: 300 us
  task_cpu_rate: 2.5 GB/s
  slowdown: 1.1
  barrier: 1 ms
  transport: 1 GB/s
ranges: {dispatch: [100 us, 130 us]}
how: {dispatch: 4 jobs on one device}
"""

FILES: Mapping[str, str] = {
    "d/run.yaml": RUN,
    "d/cluster.yaml": CLUSTER,
    "d/jobs.csv": JOBS_CSV,
    "d/jobs.yaml": JOBS_YAML,
    "d/job.yaml": JOB_YAML,
    "d/extra.yaml": EXTRA,
    "d/machine.yaml": MACHINE,
}


def reader(files: Mapping[str, str | bytes] = FILES, **changed: str) -> Reader:
    """Reads from a mapping; ``changed`` replaces files of folder ``d`` by their stem's name."""
    content = {
        **files,
        **{f"d/{name.replace('_', '.', 1)}": text for name, text in changed.items()},
    }

    def read(path: str) -> bytes:
        if path not in content:
            raise FileNotFoundError(2, "No such file or directory")
        found = content[path]
        return found.encode() if isinstance(found, str) else found

    return read
