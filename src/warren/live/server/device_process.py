"""A server and the trainer of its device in one process.

A job with one server on its GPU's machine is kept, stepped and computed there. Of a round only
losses, hashes and batches pass between the GPU and main memory.
"""

from __future__ import annotations

from collections.abc import Callable

from warren.live.device.local_trainer import LocalTrainer, build_early
from warren.live.process.linux import set_name
from warren.live.process.specs import TrainerRole
from warren.live.server.server import Server


def serve(make_server: Callable[[], Server], role: TrainerRole, lifeline: int) -> None:
    """Serve a job and compute its tasks until the zygote closes the lifeline."""
    set_name(f"warren-train-{role.device}")
    early = build_early(role)
    server = make_server()
    assert server.local is not None
    trainer = LocalTrainer(role, server.local, early)
    server.listen()
    trainer.listen(server.poller)
    ahead = False
    while True:
        ready = server.poller.poll(0 if ahead else server.timeout_ms())
        if lifeline in ready:
            return
        server.turn(ready)
        # An order to leave is the controller's to follow up: it ends this process.
        trainer.turn()
        server.step_here()
        ahead = trainer.go_on()
        if ahead:
            server.step_here()
        server.end_if_cut_off()
