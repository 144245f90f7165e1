"""Which jobs start now."""

from __future__ import annotations

from typing import Literal

from warren.serve.queue.state import Queue
from warren.serve.records.events import AttemptBegun


def decide(
    queue: Queue, now_ns: int, order: Literal["strict", "backfill"] = "strict"
) -> list[AttemptBegun]:
    """Return the attempts that begin now."""
    free = {name: {one.id: one for one in state.free()} for name, state in queue.machines.items()}
    found: list[AttemptBegun] = []
    groups = sorted(queue.waiting.groups.items(), key=lambda one: (-one[0].priority, one[1][0]))
    for group, orders in groups:
        for at in orders:
            job = queue.in_order[at]
            for host, devices in free.items():
                kind = group.need.device_type
                fit = [one.id for one in devices.values() if kind in (None, one.type, one.kind)]
                if group.need.host in (None, host) and len(fit) >= group.need.devices:
                    chosen = tuple(fit[: group.need.devices])
                    for one in chosen:
                        del devices[one]
                    found.append(
                        AttemptBegun(
                            time_ns=now_ns,
                            job=job.id,
                            attempt=len(job.attempts) + 1,
                            host=host,
                            devices=chosen,
                        )
                    )
                    break
            else:
                return found
    return found
