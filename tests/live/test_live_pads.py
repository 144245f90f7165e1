"""Pads: profile times, hidden factors that only depend on the task, and files that are refused."""

from __future__ import annotations

import contextlib
import io
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from live_worlds import job, virtual

from warren.core.journal_reader import read_history
from warren.core.loop import Core
from warren.live.emulated_times import Pads, PadTable, read_jitter
from warren.live.process.linux import core_of
from warren.model.cluster import Device, DeviceType, Emulate, Local, Network, NetworkModel
from warren.model.costs import CostTable
from warren.model.errors import SpecError
from warren.model.run import Run
from warren.model.units import NEVER_NS
from warren.policy.registry import place_policy
from warren.report.record import LIVE
from warren.runs.bound_of_run import lower_bound
from warren.sim.port import SimPort

TIMES = (0.25, 0.2, 0.3, 0.25, 0.24, 0.26)


def saved(folder: Path, values: object, name: str = "j.npy") -> str:
    np.save(folder / name, np.asarray(values))
    return name


def world(folder: Path, emulate: Emulate | None, scale: int = 2) -> tuple[Run, CostTable]:
    """Two jobs on devices of types A and B, where the second job does not fit B."""
    run, _ = virtual([job(0, scale=scale, rounds=40), job(1)], 2, str(folder))
    first, second = run.cluster.devices
    cluster = replace(
        run.cluster,
        devices=(replace(first, type="A"), Device(index=1, name="b", type="B", host=second.host)),
        types=(DeviceType(name="A"), DeviceType(name="B")),
        emulate=emulate,
    )
    comp = np.array([[10**9, 2 * 10**9], [10**8, NEVER_NS]])
    sync = np.array([[10**7, 10**7], [0, NEVER_NS]])
    costs = CostTable(comp_ns_JT=comp, sync_ns_JT=sync, fits_JT=comp != NEVER_NS)
    return replace(run, cluster=cluster, seed=5), costs


def refusal(path: Path) -> str:
    with pytest.raises(SpecError) as caught:
        read_jitter(str(path))
    (problem,) = caught.value.problems
    assert str(problem).startswith(f"{path}: emulate.jitter: ")
    assert str(problem).isprintable()
    return problem.message


def test_a_run_that_is_not_emulated_pads_nothing(tmp_path: Path) -> None:
    pads = Pads(*world(tmp_path, None))
    assert pads.table(0).constant(0) == pads.table(1).pads(0, 7, 1) == (0, 0)


def test_a_pad_is_the_profile_time_in_real_nanoseconds(tmp_path: Path) -> None:
    pads = Pads(*world(tmp_path, Emulate(time_scale=0.05)))
    assert pads.table(0).constant(0) == pads.table(0).pads(0, 3, 1) == (50_000_000, 500_000)
    assert pads.table(1).pads(0, 3, 1) == (100_000_000, 500_000)


def test_slower_multiplies_both_pads_of_its_type_alone(tmp_path: Path) -> None:
    plain = Pads(*world(tmp_path, Emulate(time_scale=0.05)))
    slower = Pads(*world(tmp_path, Emulate(time_scale=0.05, slower={"B": 1.2})))
    assert slower.table(1).constant(0) == (120_000_000, 600_000)
    assert slower.table(0).constant(0) == plain.table(0).constant(0)


def test_jitter_draws_from_the_file_and_leaves_synchronization_alone(tmp_path: Path) -> None:
    emulate = Emulate(time_scale=0.05, jitter=saved(tmp_path, TIMES))
    table = Pads(*world(tmp_path, emulate)).table(0)
    drawn = {table.pads(0, round_no, shard) for round_no in range(40) for shard in range(2)}
    # The median is 0.25, so the factors are 0.8, 0.96, 1, 1.04 and 1.2.
    assert {comp / 1e6 for comp, _ in drawn} == {40, 48, 50, 52, 60}
    assert {sync for _, sync in drawn} == {500_000}
    assert table.constant(0) == (50_000_000, 500_000)


def test_every_value_is_drawn_about_as_often_as_the_others(tmp_path: Path) -> None:
    values = 1 + np.arange(10) / 10
    emulate = Emulate(jitter=saved(tmp_path, values))
    table = Pads(*world(tmp_path, emulate)).table(0)
    drawn = [table.pads(0, round_no, shard)[0] for round_no in range(2000) for shard in range(5)]
    counts = np.unique(drawn, return_counts=True)[1]
    assert len(counts) == 10
    # 10,000 draws, 1,000 expected of each; the standard deviation is 30.
    assert np.abs(counts - 1000).max() < 150


def test_a_task_draws_the_same_on_every_device_and_another_seed_draws_otherwise(
    tmp_path: Path,
) -> None:
    emulate = Emulate(jitter=saved(tmp_path, 1 + np.arange(500) / 1000))
    run, costs = world(tmp_path, emulate)
    pads, again, other = Pads(run, costs), Pads(run, costs), Pads(replace(run, seed=6), costs)
    tasks = [(round_no, shard) for round_no in range(20) for shard in range(2)]
    on_a = [pads.table(0).pads(0, *task)[0] for task in tasks]
    assert on_a == [again.table(0).pads(0, *task)[0] for task in tasks]
    assert [2 * comp for comp in on_a] == [pads.table(1).pads(0, *task)[0] for task in tasks]
    assert len({*on_a}) > 30
    assert on_a != [other.table(0).pads(0, *task)[0] for task in tasks]
    assert on_a != [10 * pads.table(0).pads(1, *task)[0] for task in tasks]


def test_an_executor_gets_the_same_pads_through_a_message(tmp_path: Path) -> None:
    emulate = Emulate(time_scale=0.3, jitter=saved(tmp_path, TIMES), slower={"A": 1.3})
    pads = Pads(*world(tmp_path, emulate))
    for kind in range(2):
        sent = msgspec.msgpack.encode(pads.table(kind))
        table = msgspec.msgpack.decode(sent, type=PadTable)
        assert table == pads.table(kind)


def test_values_that_contain_the_start_are_no_jitter(tmp_path: Path) -> None:
    path = tmp_path / saved(tmp_path, [27.0, 2.5, 1.0, 1.1, 3.0, 0.9, 1.0, 1.0])
    assert read_jitter(str(path)) == (10**6, 1_100_000, 3 * 10**6, 900_000, 10**6, 10**6)


def test_whole_numbers_of_any_unit_will_do(tmp_path: Path) -> None:
    path = tmp_path / saved(tmp_path, np.array([100, 110, 90], dtype=np.uint16))
    assert read_jitter(str(path)) == (10**6, 1_100_000, 900_000)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([[1.0, 2.0]], "has the shape (1, 2)"),
        (1.0, "has the shape ()"),
        ([], "has the shape (0,)"),
        (np.ones(100_001, dtype=np.float32), "has the shape (100001,)"),
        ([1.0, 0.0], "value 1 is 0.0"),
        ([1.0, -1.0], "value 1 is -1.0"),
        ([float("nan"), 1.0], "value 0 is nan"),
        ([1.0, float("inf")], "value 1 is inf"),
        ([1.0, 1e300], "value 1 is 1e+300"),
        ([1.0, 1.0, 1.0, 2e3], "a value is more than 1000 times the median"),
        (["fast", "slow"], "holds values of type <U4"),
        ([1j], "holds values of type complex128"),
        ([True, True], "holds values of type bool"),
    ],
)
def test_an_array_that_holds_no_times_is_refused(tmp_path: Path, values: object, said: str) -> None:
    assert said in refusal(tmp_path / saved(tmp_path, values))


def test_a_file_that_is_no_array_is_refused(tmp_path: Path) -> None:
    assert "No such file" in refusal(tmp_path / "none.npy")
    assert "is not a file" in refusal(tmp_path)
    text = tmp_path / "text.npy"
    text.write_text("0.1\n0.2\n")
    assert "is not such a file; allowed: a .npy file of one dimension" in refusal(text)
    objects = tmp_path / "objects.npy"
    np.save(objects, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    assert "is damaged, or holds no numbers" in refusal(objects)
    zipped = tmp_path / "zipped.npz"
    np.savez(zipped, a=np.ones(3))
    assert "is not such a file" in refusal(zipped)


def test_a_damaged_file_is_read_or_refused_in_one_line(tmp_path: Path) -> None:
    whole = io.BytesIO()
    np.save(whole, np.ones(4))
    path, refused = tmp_path / "j.npy", 0
    for seed in range(400):
        rng, data = random.Random(seed), bytearray(whole.getvalue())
        for _ in range(rng.choice((1, 3))):
            data[rng.randrange(6, 140)] = rng.randrange(256)
        path.write_bytes(data[: rng.choice((len(data), rng.randrange(len(data))))])
        with contextlib.suppress(SpecError):
            assert read_jitter(str(path))
            continue
        refused += len(refusal(path)) > 0
    assert refused > 200


def journal_of(run: Run, costs: CostTable, place: str = "hare", world: str = "sim") -> bytes:
    journal: list[bytes] = []
    core = Core(
        run=run,
        costs=costs,
        policy=place_policy(place),
        port=SimPort(run, costs),
        sink=journal.append,
        world=world,
    )
    core.execute()
    return b"".join(journal)


def test_a_live_run_with_drawn_pads_has_no_bound(tmp_path: Path) -> None:
    for emulate, given in ((Emulate(slower={"A": 1.5}), True), (Emulate(jitter="j.npy"), False)):
        run, costs = world(tmp_path, emulate)
        bound = lower_bound(run, costs, read_history(journal_of(run, costs, world=LIVE)))
        assert (bound.makespan_s is not None) == given
        assert ("jitter" in (bound.reason or "")) != given


def test_the_simulator_and_the_policies_see_nothing_of_it(tmp_path: Path) -> None:
    hidden = Emulate(time_scale=0.05, jitter="no-such-file.npy", slower={"A": 5.0, "B": 1.2})
    for place in ("hare", "gavel-fifo", "srtf"):
        journals = []
        for emulate in (Emulate(time_scale=0.05), hidden):
            run, costs = world(tmp_path, emulate)
            journals.append(journal_of(run, costs, place))
        assert journals[0] == journals[1]


def test_published_iteration_times_can_be_named_as_they_are(data_dir: Path) -> None:
    files = sorted((data_dir / "profiles" / "chronus_itertime").glob("*.npy"))
    assert len(files) == 15
    for file in files:
        factors = np.array(read_jitter(str(file))) / 1e6
        assert 498 <= len(factors) <= 499
        assert 0.006 < factors.std() / factors.mean() < 0.08
        assert abs(factors.mean() - 1) < 0.01
        assert factors.max() < 2


def test_devices_go_around_the_cores_this_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: {9, 2, 5})
    assert [core_of(device) for device in range(5)] == [2, 5, 9, 2, 5]


def test_a_dry_run_reads_the_file_of_jitter(tmp_path: Path) -> None:
    (tmp_path / "apps.py").write_text("class A: pass\n")
    (tmp_path / "run.yaml").write_text(
        "cluster: {hosts: [{name: a, devices: {T4: 1}}], emulate: {jitter: j.npy}}\n"
        "workload: [{name: j, app: 'apps.py:A', model: resnet50, rounds: 1}]\n"
    )
    command = [sys.executable, "-m", "warren", "run", str(tmp_path / "run.yaml"), "--dry-run"]
    wrong = subprocess.run(command, capture_output=True, text=True)
    assert wrong.returncode == 2
    assert wrong.stderr == f"warren: {tmp_path}/j.npy: emulate.jitter: No such file or directory\n"
    saved(tmp_path, TIMES)
    assert subprocess.run(command, capture_output=True, text=True).returncode == 0
    plain = [*command, "--set", "cluster.emulate.jitter=none.npy", "--set", "cluster.engine=plain"]
    assert subprocess.run(plain, capture_output=True, text=True).returncode == 0


@pytest.mark.parametrize(
    ("testbed", "network", "emulate", "padded"),
    [
        ("bed", "fluid", Emulate(), False),
        ("bed", "lane", Emulate(), True),
        (None, "fluid", Emulate(), True),
        ("bed", "fluid", None, False),
    ],
)
def test_bytes_on_known_links_take_the_place_of_the_sync_times_of_jobs_with_servers(
    tmp_path: Path,
    testbed: str | None,
    network: NetworkModel,
    emulate: Emulate | None,
    padded: bool,
) -> None:
    run, costs = world(tmp_path, emulate)
    jobs = run.workload.jobs
    ring = replace(jobs[0], sync="ring")
    cluster = replace(run.cluster, local=Local(testbed=testbed), network=Network(model=network))
    for one, takes in ((jobs[0], padded), (ring, emulate is not None)):
        workload = replace(run.workload, jobs=(one, jobs[1]))
        table = Pads(replace(run, cluster=cluster, workload=workload), costs).table(0)
        assert table.constant(0) == ((10**9 if emulate else 0), 10**7 if takes else 0)
        assert table.on_links == (emulate is not None and not padded)
