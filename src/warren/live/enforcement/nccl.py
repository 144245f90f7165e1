"""The class of what NCCL sends over InfiniBand or RoCE, as environment of a job. Pure.

``NCCL_IB_TC`` is the traffic class field of its queue pairs (NCCL's list of environment variables);
on RoCE v2 that is the TOS byte, the code point and two bits of 0. It is read when a communicator is
made, so a running job keeps what it has. For sockets NCCL has no such variable.
"""

from __future__ import annotations

from warren.live.flow_marks import CODE_POINTS
from warren.model.decision import CLASSES
from warren.model.errors import Problem, SpecError


def environment_of(flow_class: int) -> dict[str, str]:
    """Return the variables of a job whose bytes have a class.

    Raises
    ------
    SpecError
        If it is no class.
    """
    if not 0 <= flow_class < CLASSES:
        message = f"{flow_class} is no class; allowed: 0 to {CLASSES - 1}"
        raise SpecError(Problem(file="flow", field="--class", message=message))
    return {"NCCL_IB_TC": str(CODE_POINTS[flow_class] << 2)}
