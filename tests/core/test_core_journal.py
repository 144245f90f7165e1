"""A journal cut or damaged anywhere is read as far as it is true, or refused."""

from __future__ import annotations

import hashlib
import struct
import sys
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from journal_replay import replay

from warren.core.journal import (
    MAGIC,
    Header,
    PinnedResumed,
    PlanRun,
    Record,
    Resumed,
    Step,
    encode,
    going_on,
    opening,
)
from warren.core.journal_reader import decode, read_history
from warren.core.loop import Core
from warren.core.state import State
from warren.model.costs import CostTable
from warren.model.errors import JournalError
from warren.model.events import JobArrived, JobFailed, RoundsDone
from warren.model.job import AppSource
from warren.model.run import Run
from warren.policy.registry import place_policy
from warren.sim.port import SimPort

sys.path.insert(0, str(Path(__file__).parents[1]))
import worlds

WAYS = [("srtf", True), ("hare", True), ("hare", False)]
COLUMNS = (
    "phase_J", "reason_J", "round_J", "next_round_J", "next_shard_J", "open_J", "arrived_J",
    "done_J", "queued_D",
)  # fmt: skip


def simulate(run: Run, costs: CostTable, place: str, compiled: bool) -> tuple[bytes, State]:
    journal = bytearray()
    core = Core(
        run=run, costs=costs, policy=place_policy(place), port=SimPort(run, costs),
        sink=journal.extend, world="sim", compiled=compiled,
    )  # fmt: skip
    state = core.execute()
    return bytes(journal), state


def made(place: str, compiled: bool) -> tuple[Run, CostTable, bytes]:
    run, costs = worlds.random_world(1, jobs=3, devices=2)
    return run, costs, simulate(run, costs, place, compiled)[0]


@pytest.mark.parametrize(("place", "compiled"), WAYS)
def test_cut_at_any_byte_a_journal_gives_its_whole_records(place: str, compiled: bool) -> None:
    journal = made(place, compiled)[2]
    whole = list(decode(journal))
    for size in range(len(journal)):
        if size < len(MAGIC):
            with pytest.raises(JournalError):
                list(decode(journal[:size]))
        else:
            kept = list(decode(journal[:size]))
            assert kept == whole[: len(kept)]
            assert len(kept) < len(whole)


@pytest.mark.parametrize(("place", "compiled"), WAYS)
def test_a_flipped_bit_before_the_last_record_is_an_error(place: str, compiled: bool) -> None:
    journal = made(place, compiled)[2]
    whole = list(decode(journal))
    last = len(journal) - len(encode(whole[-1]))
    for place_of_bit in range(8 * len(journal)):
        damaged = bytearray(journal)
        damaged[place_of_bit // 8] ^= 1 << place_of_bit % 8
        if place_of_bit < 8 * last:
            with pytest.raises(JournalError):
                list(decode(bytes(damaged)))
        else:
            try:
                kept = list(decode(bytes(damaged)))
            except JournalError:
                continue
            assert kept == whole[:-1]


HEADER = Header("r", "sim", "srtf", "1", 0, ("j0",), ("d0",))


def frame(payload: bytes, length: int | None = None) -> bytes:
    size = len(payload) if length is None else length
    return struct.pack("<II", size, zlib.crc32(payload)) + payload


@pytest.mark.parametrize("data", [b"", b"warren", b"PAR1" + bytes(40), MAGIC, MAGIC + bytes(3)])
def test_what_has_no_header_is_no_journal(data: bytes) -> None:
    with pytest.raises(JournalError):
        read_history(data)


def test_a_length_of_four_gigabytes_is_a_torn_record() -> None:
    data = MAGIC + encode(HEADER) + frame(b"x" * 9, 2**32 - 1)
    assert list(decode(data)) == [HEADER]


@pytest.mark.parametrize(
    "record",
    [
        frame(b""),
        frame(b"\xc1"),
        frame(b"\x95\xa4Step\xff"),
        frame(b"\x92\xa4Step\x91\x93\xa9JobFailed\x00\xa1\xff"),
        encode(Step((RoundsDone(0, 5, 0, 1, True),))),
        encode(PlanRun((b"",) * 10, b"")),
        encode(PlanRun((zlib.compress(b"odd"),) * 10, zlib.compress(b""))),
        encode(PlanRun((), zlib.compress(b""))),
    ],
)
def test_a_record_with_a_true_checksum_and_no_sense_is_an_error(record: bytes) -> None:
    with pytest.raises(JournalError):
        read_history(MAGIC + encode(HEADER) + record)


@pytest.mark.parametrize(("place", "compiled"), [*WAYS, ("gavel-fifo", True)])
def test_replay_gives_the_state_the_run_ended_in(place: str, compiled: bool) -> None:
    for seed in range(6):
        run, costs = worlds.random_world(seed)
        journal, state = simulate(run, costs, place, compiled)
        again = replay(journal, run, costs)
        for column in COLUMNS:
            assert np.array_equal(getattr(again, column), getattr(state, column)), column
        assert again.now_ns == state.now_ns


def test_replay_of_a_cut_journal_is_a_state_of_the_run() -> None:
    run, costs, journal = made("srtf", True)
    rounds = 0
    for size in range(len(MAGIC) + 200, len(journal), 7):
        state = replay(journal[:size], run, costs)
        assert state.round_J.sum() >= rounds
        rounds = int(state.round_J.sum())
    assert rounds > 0


def test_replay_refuses_the_journal_of_another_run() -> None:
    journal = made("srtf", True)[2]
    other, costs = worlds.random_world(2, jobs=2, devices=2)
    with pytest.raises(JournalError, match="another run"):
        replay(journal, other, costs)


def test_failures_are_kept_with_their_reason() -> None:
    step = Step((JobArrived(0, 0), JobFailed(3, 0, "out of memory")))
    history = read_history(MAGIC + encode(HEADER) + encode(step))
    assert history.failed == {0: "out of memory"}
    assert history.status(0) == "failed"


def test_a_journal_names_the_texts_of_apps_where_a_run_has_them_and_each_job_keeps_its_own() -> (
    None
):
    run, _ = worlds.random_world(1, jobs=3, devices=2)
    jobs = [replace(job, app=f"{'ab'[job.index > 0]}.py:A") for job in run.workload.jobs]
    run = replace(run, workload=replace(run.workload, jobs=tuple(jobs)))
    assert type(opening(run, "sim", "srtf")) is Header  # simulations stay as they were, to the byte
    assert type(going_on(run, 1)) is Resumed

    def having(text: bytes) -> Run:
        sources = {
            f"{name}.py": AppSource(folder="/", main="m", texts={"m": text}) for name in "ab"
        }
        return replace(run, sources=sources)

    texts = [b"1", b"2", b"2", b"1"]
    one, two, *_ = hashes = [hashlib.sha256(text).hexdigest() for text in texts]
    records: list[Record] = [opening(having(texts[0]), "live", "srtf")]
    for text, ended in zip(texts[1:], (JobFailed(1, 0, "x"), None, None), strict=True):
        records += [Step((ended,))] if ended else []
        records.append(going_on(having(text), 2))
    history = read_history(MAGIC + b"".join(map(encode, records)))
    assert history.app_sha256 == (hashes[-1],) * 3
    assert [history.apps_of(job) for job in range(3)] == [(one,), (one, two, one), (one, two, one)]
    records.append(PinnedResumed(3, ("", "")))
    with pytest.raises(JournalError, match="does not fit its header: it names other apps"):
        read_history(MAGIC + b"".join(map(encode, records)))
