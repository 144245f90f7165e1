"""Cluster files: hosts counted out, devices named per type, units understood."""

from __future__ import annotations

import pytest
from workload_files import CLUSTER, FILES, MACHINE, reader

from warren.model.cluster import Emulate, Host, Local, Network
from warren.model.errors import SpecError
from warren.model.measured import PCIE3_X16_BYTES_PER_S, Overheads, Switching
from warren.workload.run_file import load_cluster, run_from_dict


def test_hosts_with_a_count_get_numbers_and_others_keep_their_name() -> None:
    cluster = load_cluster("d/cluster.yaml", reader())
    assert [host.name for host in cluster.hosts] == ["v-0", "v-1", "t"]
    one = "hosts: [{name: a, count: 1, devices: {T4: 1}}]"
    assert load_cluster("c.yaml", reader({"c.yaml": one})).hosts[0].name == "a-0"


def test_devices_are_numbered_by_type_within_their_host() -> None:
    cluster = load_cluster("d/cluster.yaml", reader())
    assert [device.name for device in cluster.devices][3:] == [
        "v-0/V100-3", "v-1/V100-0", "v-1/V100-1", "v-1/V100-2", "v-1/V100-3",
        "t/T4-0", "t/T4-1", "t/K80-0",
    ]  # fmt: skip
    assert [device.index for device in cluster.devices] == list(range(11))
    assert cluster.type_of_device == (0,) * 8 + (1, 1, 2)


def test_units_of_a_host_are_bytes_and_bits_a_second() -> None:
    host = load_cluster("d/cluster.yaml", reader()).hosts[1]
    assert host == Host(
        name="v-1",
        devices=("v-1/V100-0", "v-1/V100-1", "v-1/V100-2", "v-1/V100-3"),
        memory_bytes=244 * 10**9,
        nic_bps=25e9,
        intra_bps=300e9,
        disk_bytes_per_s=1e9,
    )


def test_types_stand_in_the_order_described_and_an_unused_one_is_left_out() -> None:
    types = "{C: {memory: 1 GB}, A: {}, B: {}}"
    text = f"hosts: [{{name: a, devices: {{B: 1, A: 1}}}}]\ndevice_types: {types}"
    cluster = load_cluster("c.yaml", reader({"c.yaml": text}))
    assert [(kind.name, kind.memory_bytes) for kind in cluster.types] == [("A", None), ("B", None)]


def test_without_described_types_any_type_goes() -> None:
    text = "hosts: [{name: a, devices: {B: 1, A: 1}}]"
    cluster = load_cluster("c.yaml", reader({"c.yaml": text}))
    assert cluster.type_names == ("B", "A")


def test_a_fluid_network_has_the_overhead_of_a_host_and_nothing_else_of_contention() -> None:
    text = CLUSTER.replace("model: constant", "model: fluid, xi2: 3 ms")
    network = load_cluster("c.yaml", reader({"c.yaml": text, "machine.yaml": MACHINE})).network
    assert network == Network(model="fluid", xi2_s=0.003)


@pytest.mark.parametrize(
    ("network", "line"),
    [
        (
            "model: fluids",
            "network.model: 'fluids' is unknown; allowed: constant, lane, contention",
        ),
        ("model: lane, xi2: 1 ms", "network: xi2 belongs to model: contention or fluid"),
        ("xi2: 1 ms, reading: ours", "network: reading belongs to model: contention"),
        ("model: fluid, xi2: 0, alpha: 0.1", "network: alpha belongs to model: contention"),
        ("model: fluid, xi2: -1 ms", "network.xi2: '-1 ms' is not a time"),
        ("model: fluid, nic: 1 Gbps", "network.nic: unknown field; allowed: alpha, classes,"),
    ],
)
def test_a_wrong_network_says_which_model_has_what(network: str, line: str) -> None:
    text = CLUSTER.replace("model: constant", network)
    with pytest.raises(SpecError) as caught:
        load_cluster("c.yaml", reader({"c.yaml": text, "machine.yaml": MACHINE}))
    (found,) = str(caught.value).splitlines()
    assert found.startswith("c.yaml:")
    assert line in found


def test_network_engine_and_emulation_are_read() -> None:
    cluster = load_cluster("d/cluster.yaml", reader())
    assert cluster.network == Network(model="constant")
    assert cluster.engine == "local"
    assert cluster.emulate == Emulate(time_scale=0.05, jitter="times/j.npy", slower={"T4": 1.2})
    assert cluster.local == Local(look_ahead=4, pin=True, memory_bytes=2 * 10**9)


def test_unless_stated_times_are_not_hidden_and_a_device_looks_two_tasks_ahead() -> None:
    text = "hosts: [{name: a, devices: {B: 1}}]\nemulate: {}"
    cluster = load_cluster("c.yaml", reader({"c.yaml": text}))
    assert cluster.emulate == Emulate(time_scale=1.0, jitter="", slower={})
    assert cluster.local == Local(look_ahead=2, pin=False, memory_bytes=None)


def test_jitter_is_a_path_from_the_file_that_names_it() -> None:
    inside = {"hosts": [{"name": "a", "devices": {"B": 1}}], "emulate": {"jitter": "times/j.npy"}}
    jobs = [{"name": "j", "model": "m", "batch": 1}]
    run = run_from_dict({"cluster": inside, "workload": jobs}, "d", reader())
    named = run_from_dict({"cluster": "e/c.yaml", "workload": jobs}, "d", reader(C))
    absolute = run_from_dict({"cluster": "e/a.yaml", "workload": jobs}, "d", reader(C))
    found = [one.cluster.emulate and one.cluster.emulate.jitter for one in (run, named, absolute)]
    assert found == ["times/j.npy", "e/times/j.npy", "/t/j.npy"]  # the run's base comes before


C = {
    f"d/e/{name}.yaml": f"hosts: [{{name: a, devices: {{B: 1}}}}]\nemulate: {{jitter: {path}}}"
    for name, path in (("c", "times/j.npy"), ("a", "/t/j.npy"))
}


MEASURED = Overheads(
    cores=2,
    dispatch_ns=120_000,
    task_cpu_ns=400_000,
    round_cpu_ns=300_000,
    task_cpu_bytes_per_s=2.5e9,
    slowdown=1.1,
)


def test_overheads_are_read_from_the_file_that_the_cluster_names() -> None:
    assert load_cluster("d/cluster.yaml", reader()).overheads == MEASURED
    files = {**FILES, "d/machine.yaml": "", "d/e/c.yaml": CLUSTER, "d/e/machine.yaml": MACHINE}
    data = {"cluster": "e/c.yaml", "workload": [{"name": "j", "model": "m", "batch": 1}]}
    assert run_from_dict(data, "d", reader(files)).cluster.overheads == MEASURED


def test_overheads_may_stand_in_the_cluster_itself() -> None:
    text = "hosts: [{name: a, devices: {B: 1}}]\noverheads: {constants: {cores: 3}}"
    cluster = load_cluster("c.yaml", reader({"c.yaml": text}))
    assert cluster.overheads == Overheads(cores=3)
    plain = text.partition("\n")[0]
    assert load_cluster("c.yaml", reader({"c.yaml": plain})).overheads is None


@pytest.mark.parametrize(
    ("constants", "emulate", "raises", "delays"),
    [
        ("cores: 3", "null", True, False),
        ("cores: 3, dispatch: 1 ms, ring_rank: 1 ms", "null", True, True),
        ("cores: 3, dispatch: 1 ms, ring_rank: 1 ms", "{}", False, True),
        ("cores: 3, ring_start: 1 ms", "null", False, True),
        ("cores: 3, ring_start: 1 ms, slowdown: 1.1", "null", True, True),
    ],
)
def test_overheads_of_tasks_and_of_gangs_count_each_where_it_is_stated(
    constants: str, emulate: str, raises: bool, delays: bool
) -> None:
    text = f"hosts: [{{name: a, devices: {{A: 1}}}}]\nemulate: {emulate}\n"
    text += f"overheads: {{constants: {{{constants}}}}}"
    cluster = load_cluster("c.yaml", reader({"c.yaml": text}))
    assert (cluster.raises_times, cluster.delays_gangs) == (raises, delays)


@pytest.mark.parametrize(
    ("stated", "found"),
    [
        ("{scheme: hare}", Switching(scheme="hare", bus_bytes_per_s=PCIE3_X16_BYTES_PER_S)),
        ("{scheme: default, bus: 3 GB/s}", Switching(scheme="default", bus_bytes_per_s=3e9)),
        ("{time: 5 s}", Switching(time_ns={"A": 5 * 10**9, "B": 5 * 10**9})),
        ("{times: {B: 2 ms, A: 1}}", Switching(time_ns={"A": 10**9, "B": 2 * 10**6})),
        ("null", None),
    ],
)
def test_switching_is_a_scheme_or_a_time(stated: str, found: Switching | None) -> None:
    text = f"hosts: [{{name: a, devices: {{A: 1, B: 1}}}}]\nswitching: {stated}"
    assert load_cluster("c.yaml", reader({"c.yaml": text})).switching == found


def test_emulated_or_plain_runs_may_state_overheads_and_switching() -> None:
    hosts = "hosts: [{name: a, devices: {A: 1}}]\noverheads: {constants: {cores: 3}}"
    for other in ("emulate: {}", "engine: plain"):
        text = f"{hosts}\nswitching: {{time: 1}}\n{other}"
        assert load_cluster("c.yaml", reader({"c.yaml": text})).switching is not None


def test_data_are_spilled_within_a_memory_that_is_stated_or_by_a_ratio() -> None:
    def read_local(host: str, local: str) -> Local:
        text = f"hosts: [{{name: a, devices: {{B: 1}}{host}}}]\nlocal: {{{local}}}"
        return load_cluster("c.yaml", reader({"c.yaml": text})).local

    assert read_local(", memory: 2 GB", "spill: true") == Local(spill=True)
    assert read_local("", "spill: true, disk_ratio: 0.4") == Local(spill=True, disk_ratio=0.4)
    on_disk = read_local("", "spill: true, disk_ratio: 1, model_on_disk: true")
    assert on_disk == Local(spill=True, disk_ratio=1, model_on_disk=True)
    with pytest.raises(SpecError, match=r"local.spill: needs the memory of every host, or disk_r"):
        read_local("", "spill: true")


def test_hosts_with_agents_limit_memory_and_spill_no_data() -> None:
    for wanted in (
        "engine: {ray: '10.0.0.1:6379'}\nlocal: {",
        "local: {testbed: lab, lease: 9 s, ",
    ):
        text = f"hosts: [{{name: a, devices: {{cuda: 1}}, memory: 2 GB}}]\n{wanted}"
        limited = load_cluster("c.yaml", reader({"c.yaml": f"{text}memory: 2 GB}}"}))
        assert limited.local.memory_bytes == 2 * 10**9
        for other in ("spill", "pin"):
            with pytest.raises(SpecError, match=f"local.{other}: cannot be had with "):
                load_cluster("c.yaml", reader({"c.yaml": f"{text}{other}: true}}"}))
