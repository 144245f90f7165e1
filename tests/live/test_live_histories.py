"""Nothing is lost: random histories of a job that migrates, is copied, delayed and struck.

Real servers, executors and controller in one thread; see ``history_world``. More of them, and how
many of each kind there are, in ``experiments/histories.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from history_core import play
from history_jobs import a_job, app_of, reference
from history_modules import virtual_modules
from history_network import VirtualLink
from history_world import Process, ServerProcess, World

from warren.live.process.specs import ServerRole
from warren.live.training.parameter_store import ParameterStore
from warren.live.transport.server_messages import JobOver, Piece, Pull
from warren.model.job import Job

pytestmark = pytest.mark.slow

CHUNK = 12
CHUNKS = 7
FOUND = (99, 138, 229, 252, 365, 381, 1823)
"""Histories that have found a fault, in Warren or planted, which few others find."""


@pytest.fixture(autouse=True, scope="module")
def _virtual() -> Iterator[None]:
    with virtual_modules():
        yield


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_round_is_that_of_the_plain_loop_whatever_moves_and_whoever_is_lost(
    chunk: int,
) -> None:
    """States, losses, metrics and parameters to the bit; each barrier and each task once.

    No server serves a round that begins elsewhere, servers end where the last shape has them, and
    nothing waits for ever.
    """
    counts: Counter[str] = Counter()
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        counts += play(seed).counts
    assert counts["migrations"] > CHUNK
    assert counts["servers lost"]


def test_a_shape_whose_servers_do_not_come_up_is_void() -> None:
    assert play(20_003).counts["void shapes"]


@pytest.mark.parametrize("seed", FOUND)
def test_what_has_found_a_fault_finds_none(seed: int) -> None:
    play(seed)


def test_an_heir_answers_when_it_has_its_blocks_and_says_which_rounds_are_over() -> None:
    """The other heir has not its own yet, so the first round here has not begun."""
    job = a_job("Whole", 1, None, None)
    right = reference("Whole", 1)
    store = ParameterStore(app_of(job), job)
    for results in right.results[:2]:
        store.add(0, results[0])
        store.step()
        store.conclude()
    world = World.now = World(0, "/nowhere", right, 1)
    heir = an_heir(world, job)
    executor, donor = Process(world, "executor"), Process(world, "donor")
    asks = VirtualLink(world.network, executor, heir.server._hub.address)
    for round_no in range(3):
        asks.send(Pull(round_no, 0))
    assert said_by(heir, asks) == []
    gives = VirtualLink(world.network, donor, heir.server._hub.address)
    gives.send(Piece(0, 2, 1, 0, 0, 0), store.piece_for(0, 2, ()))
    over, over_too, state = said_by(heir, gives, asks)
    assert (over, over_too) == (JobOver(0), JobOver(1))
    assert (state.round, state.passed_ns) == (2, None)


def an_heir(world: World, job: Job) -> ServerProcess:
    """The first of two, of one donor."""
    role = ServerRole(
        folder="/nowhere", base="", job=job, log="", params="", store="/nowhere", tmp="", part=0,
        homes=(0, 0), generation=1, round=0, donors=1,
    )  # fmt: skip
    heir = world.acting = ServerProcess(world, 1, role)
    heir.start()
    return heir


def said_by(heir: ServerProcess, *links: VirtualLink) -> list[Any]:
    """What an heir answers to all that was sent to it, over the last link."""
    links[0].up.deliver(9)
    heir.turn()
    return [message for message, _ in links[-1].down.flying]


def test_a_seed_decides_all_of_a_history() -> None:
    one, other = play(3), play(3)
    assert (one.steps, one.now_ns, one.counts) == (other.steps, other.now_ns, other.counts)
