"""Ranks take nothing from whoever does not know the secret of their ring, and send it nothing."""

from __future__ import annotations

import faulthandler
import multiprocessing
import struct
from base64 import b64encode
from collections.abc import Sequence
from contextlib import suppress
from itertools import product
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from live_worlds import drive, job, of, world
from ring_outsider import Outsider, port_of

from warren.live.control.local_engine import LivePort
from warren.live.control.ring_gangs import GangManager
from warren.live.oracle.plain import train
from warren.live.process.specs import RankRole
from warren.live.rings.allreduce import Ring, RingBroken
from warren.live.rings.rank_proof import RankProofs, new_secret
from warren.live.training import numerics
from warren.live.training.app.app_loader import build_app
from warren.model.decision import Assignment
from warren.model.events import AnyEvent, ParamsSaved, RolledBack, RoundsDone

_LIMIT_S = 10.0
_TRIES = 24
"""Which of two ranks connects depends on their ports: the place is free in half of the tries."""
_OWN = (7.0, 11.0)
"""What ranks add."""
_NO_SUCH_SLOT = struct.pack("<6Q", 48 + 32, 1, 12345, 0, 32, 0) + bytes(32)
"""A gloo message that nobody waits for."""
_CONTEXT = multiprocessing.get_context("fork")


def test_a_proof_is_right_for_its_two_ranks_its_direction_its_ring_and_its_secret_only() -> None:
    secret = new_secret()
    shown = RankProofs(secret, "a", 1).to(0)
    assert RankProofs(secret, "a", 0).right(1, shown)
    assert not RankProofs(secret, "a", 0).right(2, shown)
    assert not RankProofs(secret, "a", 1).right(0, shown)
    assert not RankProofs(secret, "b", 0).right(1, shown)
    assert not RankProofs(new_secret(), "a", 0).right(1, shown)
    assert not RankProofs(secret, "a", 0).right(1, shown[:-1])
    assert len({new_secret() for _ in range(10)}) == 10
    with pytest.raises(ValueError, match="has 32 bytes, not 0"):
        RankProofs(b"", "a", 0)


def _rank(rank: int, size: int, meeting: Path, secret: bytes, mine: Connection) -> None:
    """Add, and say what came of it."""
    faulthandler.disable()  # what it is sent may end it
    torch.set_num_threads(1)
    try:
        ring = Ring(rank, size, str(meeting), "lo", _LIMIT_S, secret)
        own = torch.full((1000,), _OWN[rank % 2])
        ring.add(own)
        mine.send(own.tolist())
    except RingBroken as error:
        mine.send(str(error))
    mine.poll(_LIMIT_S)  # until the test has seen it


class _Ranks:
    """Ranks of one ring, started one by one; none outlives the context."""

    def __init__(self, meeting: Path, size: int) -> None:
        self.meeting, self._size = meeting, size
        self._pipes: list[Connection] = []
        self._processes: list[BaseProcess] = []

    def __enter__(self) -> _Ranks:
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._processes:
            one.kill()
            one.join()
        for pipe in self._pipes:
            pipe.close()

    def start(self, rank: int, secret: bytes) -> None:
        ours, theirs = _CONTEXT.Pipe()
        what = rank, self._size, self.meeting, secret, theirs
        process = _CONTEXT.Process(target=_rank, args=what)
        process.start()
        theirs.close()
        self._pipes.append(ours)
        self._processes.append(process)

    def said(self, rank: int) -> list[float] | str:
        """What came of a rank; how it ended if it was ended by what it was sent."""
        try:
            assert self._pipes[rank].poll(4 * _LIMIT_S)
            answer: list[float] | str = self._pipes[rank].recv()
        except EOFError:
            return "ended"
        return answer


def _struck(folder: Path, garbage: bytes = b"") -> tuple[list[float] | str, bytes]:
    """What a rank says that took an outsider for the other rank, and what it sent to that.

    Where the other rank is the one that listens, the outsider gets no place, and the sum is right.
    """
    secret = new_secret()
    for number in range(_TRIES):
        with _Ranks(folder / f"meeting-{number}", 2) as ranks:
            ranks.start(0, secret)
            outsider = Outsider(port_of(ranks.meeting, 0), garbage)
            try:
                ranks.start(1, secret)
                said = ranks.said(0)
                if outsider.struck:
                    return said, outsider.heard
                assert said == ranks.said(1) == [sum(_OWN)] * 1000
            finally:
                outsider.close()
    raise AssertionError(f"no outsider got a place in {_TRIES} tries")


@pytest.mark.live
def test_an_outsider_that_talks_as_gloo_does_is_refused_before_it_hears_a_number(
    tmp_path: Path,
) -> None:
    said, heard = _struck(tmp_path)
    assert said == "who is in the place of rank 1 does not belong to this ring"
    assert len(heard) <= 32  # the proof, which is of no use to it
    assert struct.pack("<f", _OWN[0]) not in heard


@pytest.mark.live
def test_garbage_in_the_place_of_a_rank_breaks_the_ring_and_is_not_summed(tmp_path: Path) -> None:
    said, heard = _struck(tmp_path, _NO_SUCH_SLOT)
    assert said == "ended" or "has not proved that it belongs to this ring" in said
    assert not heard


@pytest.mark.live
def test_a_rank_with_another_secret_is_refused_by_all(tmp_path: Path) -> None:
    secrets: Sequence[bytes] = [right := new_secret(), new_secret(), right]
    with _Ranks(tmp_path / "meeting", 3) as ranks:
        for rank, secret in enumerate(secrets):
            ranks.start(rank, secret)
        answers = [ranks.said(rank) for rank in range(3)]
    assert all(isinstance(one, str) for one in answers), answers
    for rank in (0, 2):
        assert "rank 1 " in answers[rank]


@pytest.mark.live
def test_a_gang_with_a_stranger_breaks_with_a_line_and_the_next_one_gives_the_right_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no secret is where others can read it: command lines, environments, files of the run."""
    told: dict[tuple[int, int], bytes] = {}
    role_of = GangManager._role

    def role(self: GangManager, *what: Any) -> RankRole:
        found = role_of(self, *what)
        if (found.incarnation, found.rank) == (1, 1):
            found = msgspec.structs.replace(found, secret=new_secret())
        told[found.incarnation, found.rank] = found.secret
        return found

    monkeypatch.setattr(GangManager, "_role", role)
    run, costs = world(tmp_path, (job(0, sync="ring", rounds=4),), devices=2)
    seen: list[bytes] = []
    with LivePort(run, costs, tmp_path / "run") as port:

        def look(event: AnyEvent) -> None:
            if isinstance(event, RoundsDone):
                for pid, what in product(port.processes(), ("cmdline", "environ")):
                    with suppress(OSError):  # gone
                        seen.append(Path(f"/proc/{pid}/{what}").read_bytes())

        events = drive(port, [Assignment(d, 0, 0, 4, (d,)) for d in (0, 1)], look)
    reasons = [event.reason for event in of(events, RolledBack)]
    assert len(reasons) == 1
    assert "does not belong to this ring" in reasons[0]
    app = build_app(run.workload.jobs[0], run.base)
    numerics.pin()
    expected = train(app, run.workload.jobs[0]).digest
    assert [event.sha256 for event in of(events, ParamsSaved)] == [expected]
    assert told[2, 0] == told[2, 1] != told[1, 0]
    assert seen
    seen += [path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()]
    for secret in told.values():
        for text in (secret, secret.hex().encode(), repr(secret).encode(), b64encode(secret)):
            assert not [one for one in seen if text in one]
