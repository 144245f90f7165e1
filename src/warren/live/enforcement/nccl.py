"""The class of NCCL's traffic over InfiniBand or RoCE, as environment of a job. Pure.

``NCCL_IB_TC`` is the traffic class field of its queue pairs; on RoCE v2 that is the TOS byte, the
code point and two bits of 0. It is read when a communicator is made, so a running job keeps its
value. No such variable is known for sockets. None of this was tried: no machine at hand has it.
"""

from __future__ import annotations

from warren.live.enforcement.requests import CodePoints, wrong
from warren.live.flow_marks import CODE_POINTS
from warren.model.decision import CLASSES


def environment_of(flow_class: int, code_points: CodePoints = CODE_POINTS) -> dict[str, str]:
    """Return the variables of a job whose bytes have a class.

    Raises
    ------
    SpecError
        If it is no class.
    """
    if not 0 <= flow_class < CLASSES:
        raise wrong("--class", f"{flow_class} is no class; allowed: 0 to {CLASSES - 1}")
    return {"NCCL_IB_TC": str(code_points[flow_class] << 2)}
