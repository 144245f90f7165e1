"""Trainers of coming tasks are told to read their data while another job's task computes."""

from __future__ import annotations

import pytest
from device_world import stage
from live_worlds import job

from warren.live.transport.messages import ReadInput, RunTask


@pytest.mark.parametrize("spill", [True, False])
def test_a_free_trainer_learns_once_which_task_comes(spill: bool) -> None:
    with stage(job(0), job(1), spill=spill) as world:
        servers = world.servers[0], world.server_of(1)
        trainers = world.trainer(11, 0), world.trainer(12, 1)
        world.assign(0, 0, 0, (0,))
        world.answer(servers[0], 0)
        trainers[0].hear(RunTask)
        world.assign(1, 1, 3, (1,))
        if spill:
            told = trainers[1].hear(ReadInput)
            assert (told.job, told.round, told.shard) == (1, 3, 1)
        # Neither again, nor the one that computes, nor where nothing is on disk.
        assert trainers[1].hears_none(ReadInput)
        assert trainers[0].hears_none(ReadInput)
