"""A server and the trainer of its device in one process: nothing of a round leaves the device."""

from __future__ import annotations

from warren.live.device.local_trainer import LocalTrainer
from warren.live.process.specs import TrainerRole
from warren.live.server.server import Server


def serve(server: Server, role: TrainerRole, lifeline: int) -> None:
    """Serve a job and compute its tasks until the zygote closes the lifeline."""
    assert server.local is not None
    trainer = LocalTrainer(role, server.local)
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
