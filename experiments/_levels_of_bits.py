"""What systems promise of equal bits and at what cost, beside what Warren promises: a table."""

from __future__ import annotations

import json
from typing import Final

import _common
from _evidence_live import table

EASYSCALE_S: Final = (
    ("ResNet-50", 0.250, 0.269, 0.586),
    ("VGG19", 0.259, 0.392, 1.133),
    ("BERT", 0.441, 0.441, 0.439),
)
"""EasyScale's printed times on a V100, s: plain, deterministic on one type, across types."""
TEXT: Final = """## Levels of equal bits (EasyScale)

EasyScale (SC'23) makes the closest public promise to Warren's, and across GPU types it promises
more: a job on V100 and P100 together has the losses of data-parallel training. Warren keeps a job
to one [numerics class](concepts.md#what-the-user-fixes-what-the-scheduler-decides), such as one GPU
type, and promises nothing across classes. EasyScale shows losses, not parameters, and no faults.
Its training library is not part of its artifact, so its claim could not be checked here.

{rows}

Warren's costs are of an H200 and {nets} nets, EasyScale's of a V100 and three. They show the cost
of a level where it was measured, and cannot be compared with each other.

[E] [sUntvoOk/EasyScale_info_for_SC23](https://github.com/sUntvoOk/EasyScale_info_for_SC23);
[P] [pytorch#105726](https://github.com/pytorch/pytorch/issues/105726);
[T] [TransformerEngine#2977](https://github.com/NVIDIA/TransformerEngine/pull/2977);
[R] [microsoft/RepDL](https://github.com/microsoft/RepDL).
"""


def levels_of_bits() -> str:
    """The section."""
    nets = json.loads((_common.RESULTS / "gpu_alone.json").read_text())["parts"]["alone"]
    measured = [row["times"] for row in nets.values() if isinstance(row, dict)]
    deterministic, free = (
        f"{min(times):.2f} to {max(times):.2f} times"
        for times in ([one[way] for one in measured] for way in ("deterministic", "free"))
    )
    one_type, across = (
        ", ".join(f"{net} {found[level] / found[0]:.2f}" for net, *found in EASYSCALE_S)
        for level in (1, 2)
    )
    rows = [
        ["EasyScale, one type", "any number of GPUs of one type", 'losses "exactly the same"',
         f"{one_type} times plain", "its authors [E]"],
        ["EasyScale, across types", "V100 and P100 together", 'losses "exactly the same"',
         f"{across} times plain", "its authors [E]"],
        ["Warren", "any schedule, losses of processes and hosts, resumes; one numerics class",
         "SHA-256 of all parameters",
         f"{deterministic} the user's deterministic loop, {free} the free one",
         "[GPUs](reproduction/gpu.md), [evidence](evidence.md)"],
        ["pinned cuBLASLt", "A100, L40, L40S and H100", "equal fp32 training", "not stated",
         "an issue of PyTorch [P]"],
        ["TransformerEngine", "1, 2, 4 or 8 tensor-parallel ranks; H100 and B300",
         "equal matrix products", "not printed", "an open pull request [T]"],
        ["RepDL", "a processor and any CUDA GPU", "equal bits of a subset of operators, fp32",
         "no table", "its README [R]"],
    ]  # fmt: skip
    head = ["system", "across", "what is equal", "cost", "source"]
    return TEXT.format(rows=table(head, rows), nets=len(measured))
