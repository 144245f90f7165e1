"""What passed links: tables tell it, and a check finds bytes too many, too few or astray."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from report_files import edit_csv, edit_summary, files_of
from report_world import S, record_of

from warren.core.journal_reader import TimedAnswers
from warren.model.cluster import Network, static_server_hosts
from warren.model.decision import Decision, Shape
from warren.model.errors import SpecError
from warren.model.link_use import LinkUseRecorder
from warren.report.checks.check import check
from warren.report.links import LINK_COLUMNS, links_parquet, read_links_parquet
from warren.report.tables import model_bytes, read_servers_csv, servers_csv

MB = 10**6
SHAPED = 2
"""A job that was given servers of unequal parts."""


def linked_record(seed=1, servers=2, nic_bps=10e9, rings=True, **fields):
    """A record whose every pull and push was counted, one transfer at a time."""
    record = record_of(seed=seed, counts=(2, 2, 2), **fields)
    run, cluster = record.run, record.run.cluster
    hosts = tuple(replace(one, nic_bps=nic_bps) for one in cluster.hosts)
    cluster = replace(cluster, hosts=hosts, network=Network(model="fluid"))
    jobs = tuple(
        replace(job, sync="ring" if rings and job.index % 3 == 1 else "ps")
        for job in run.workload.jobs
    )
    run = replace(
        run,
        cluster=cluster,
        workload=replace(run.workload, jobs=jobs),
        scheduler=replace(run.scheduler, servers=servers),
    )
    # Job 0's model is of unknown size: it is on no link.
    sizes = np.array([0 if job.index == 0 else (job.index + 1) * MB for job in jobs])
    shape = Shape(None, (2, 0, 2), (2 * MB, 500_000, 500_000))
    record.history.answers.append(
        TimedAnswers(time_ns=0, decision=Decision(shapes={SHAPED: shape}))
    )
    record = replace(record, run=run, costs=replace(record.costs, model_bytes_J=sizes))
    record.history.link_use = counted(record).use()
    return record


def counted(record):
    """Each transfer for itself: a ring once a round, a pull once a device and round, each push.

    And behind the last round what the first server is sent by the others.
    """
    run, line = record.run, record.history.timeline
    host_D = [[host.name for host in run.cluster.hosts].index(d.host) for d in run.cluster.devices]
    recorder = LinkUseRecorder(len(run.cluster.hosts))
    pulled, ring_hosts, ring_end, held = set(), {}, {}, {}
    for row in range(len(line)):
        job, device, round_no = (int(c[row]) for c in (line.job_R, line.device_R, line.round_R))
        start, end = int(line.start_ns_R[row]), int(line.end_ns_R[row])
        size, host = int(record.costs.model_bytes_J[job]), host_D[device]
        if run.workload.jobs[job].sync == "ring":
            ring_hosts.setdefault((job, round_no), set()).add(host)
            ring_end[job, round_no] = end
            continue
        if job == SHAPED:
            servers = ((2, 2 * MB), (0, MB / 2), (2, MB / 2))
        else:
            named = static_server_hosts(run.cluster.hosts, job, run.scheduler.servers)
            servers = tuple((one, size / len(named)) for one in named)
        held[job] = servers if size else ()
        for server, part in held[job]:
            if server == host:
                continue
            if (job, device, round_no) not in pulled:
                recorder.add((2 * server, 2 * host + 1), job, job % 8, start, end, part)
            recorder.add((2 * host, 2 * server + 1), job, job % 8, start, end, part)
        pulled.add((job, device, round_no))
    last_ns = int(line.end_ns_R.max())
    for job, servers in held.items():
        for server, part in servers[1:] if record.history.status(job) == "finished" else ():
            if server != servers[0][0]:
                links = (2 * server, 2 * servers[0][0] + 1)
                recorder.add(links, job, job % 8, last_ns - S // 10, last_ns, part)
    for (job, round_no), hosts in ring_hosts.items():
        workers, size = run.workload.jobs[job].scale, int(record.costs.model_bytes_J[job])
        if len(hosts) > 1:
            links = [link for host in sorted(hosts) for link in (2 * host, 2 * host + 1)]
            end = ring_end[job, round_no]
            recorder.add(links, job, 0, end - S // 10, end, 2 * size * (workers - 1) / workers)
    return recorder


def linked_files(record):
    return files_of(record) | {
        "links.parquet": links_parquet(record),
        "servers.csv": servers_csv(record).encode(),
    }


def edit_links(files, change):
    """``change(columns)`` edits the columns, as lists, in place."""
    table = pq.read_table(io.BytesIO(files["links.parquet"]))
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    change(columns)
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return files | {"links.parquet": out.getvalue()}


@pytest.mark.parametrize("seed", range(1, 7))
@pytest.mark.parametrize("servers", [1, 3])
def test_a_folder_whose_every_transfer_was_counted_has_no_fault(seed, servers):
    record = linked_record(seed=seed, servers=servers, failed=(3,))
    assert len(record.history.link_use) > 100
    assert check(linked_files(record)) == []


def test_a_folder_that_tells_of_no_links_is_checked_as_ever():
    assert check(files_of(linked_record())) == []


def test_a_job_that_failed_may_have_sent_anything():
    files = linked_files(linked_record(failed=(3,)))

    def more(columns):
        rows = [k for k, job in enumerate(columns["job"]) if job == "job-03"]
        assert rows
        columns["bytes"][rows[0]] += MB

    assert check(edit_links(files, more)) == []


def row_of(columns, job):
    return columns["job"].index(job)


def more_bytes(columns):
    columns["bytes"][row_of(columns, "job-02")] += 1000


def no_bytes(columns):
    columns["bytes"][row_of(columns, "job-04")] -= 1000


def other_job(columns):
    columns["job"][row_of(columns, "job-02")] = "job-05"


def other_way(columns):
    row = row_of(columns, "job-05")
    columns["direction"][row] = "down" if columns["direction"][row] == "up" else "up"


def of_unknown_size(columns):
    columns["job"][row_of(columns, "job-03")] = "job-00"


def unknown_job(columns):
    columns["job"][0] = "ghost"


def sideways(columns):
    columns["direction"][0] = "left"


def slower(columns):
    columns["rate_bytes_per_s"] = [1000.0] * len(columns["rate_bytes_per_s"])


def shorter(columns):
    columns["end_s"] = [one + 1e-6 for one in columns["start_s"]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (more_bytes, r"links.parquet \S+ (up|down), job job-02: \d+ bytes passed; expected \d+"),
        (no_bytes, r"links.parquet \S+ (up|down), job job-04: \d+ bytes passed; expected \d+"),
        (other_job, r"links.parquet \S+ (up|down), job job-05: \d+ bytes passed"),
        (other_way, r"links.parquet \S+ down, job job-05: \d+ bytes passed"),
        (of_unknown_size, r"job job-00: \d+ bytes passed; expected 0, which its rounds send"),
        (unknown_job, "links.parquet: unknown job ghost; expected a job of jobs.csv"),
        (sideways, "'left' is not up or down"),
        (slower, r"links.parquet \S+ (up|down) from \S+ s: \d+ bytes pass in \S+ s; expected at"),
        (shorter, r"links.parquet \S+ (up|down) from \S+ s: \d+ bytes pass in \S+ s; expected at"),
        (lambda columns: columns.pop("rate_bytes_per_s"), "the columns must be link,direction"),
        (lambda columns: columns.update({"class": ["1"] * len(columns["job"])}), "is of kind"),
    ],
)
def test_a_planted_fault_of_links_is_found(change, message):
    faults = check(edit_links(linked_files(linked_record()), change))
    assert any(re.search(message, str(one)) for one in faults), faults


def test_links_as_fast_as_their_cards_are_no_fault_and_a_part_in_a_thousand_more_is_one():
    record = linked_record(rings=False, jobs=2, servers=1)
    line = record.history.timeline

    def with_bytes(factor):
        # One transfer that fills the link for all of the run, whatever its job ought to send.
        recorder = LinkUseRecorder(3)
        last_ns = int(line.end_ns_R.max())
        recorder.add((0, 3), 1, 0, 0, last_ns, factor * 10e9 / 8 * last_ns / 1e9)
        record.history.link_use = recorder.use()
        return [one for one in check(linked_files(record)) if "bytes pass in" in str(one)]

    assert with_bytes(1.0) == []
    assert len(with_bytes(1.001)) > 1


def test_servers_elsewhere_are_a_fault():
    files = linked_files(linked_record())

    def moved(rows):
        for row in rows[1:]:
            if row[0] == "job-05":
                row[1] = "t4-0" if row[1] != "t4-0" else "v100-0"

    faults = check(edit_csv(files, "servers.csv", moved))
    assert faults
    assert all("job job-05" in str(one) for one in faults)


def test_links_without_servers_are_a_fault():
    files = linked_files(linked_record())
    del files["servers.csv"]
    assert any("servers.csv: is missing" in str(one) for one in check(files))


def test_a_run_that_went_on_may_have_counted_less_but_not_more():
    files = linked_files(linked_record())
    went_on = edit_summary(files, resumed=1)
    assert check(edit_links(files, no_bytes))
    assert check(edit_links(went_on, no_bytes)) == []
    assert check(edit_links(went_on, more_bytes))


def test_what_passed_comes_back_as_it_was_written():
    record = linked_record()
    data, use = links_parquet(record), record.history.link_use
    back = read_links_parquet(data)
    assert data == links_parquet(record)
    hosts = [host.name for host in record.run.cluster.hosts]
    jobs = [job.name for job in record.run.workload.jobs]
    assert [hosts.index(back.hosts[h]) for h in back.host_R] == (use.link_R // 2).tolist()
    assert back.down_R.tolist() == (use.link_R % 2 == 1).tolist()
    assert [jobs.index(back.jobs[j]) for j in back.job_R] == use.job_R.tolist()
    assert back.class_R.tolist() == use.class_R.tolist()
    assert back.start_ns_R.tolist() == (use.bin_R * use.bin_ns).tolist()
    assert back.end_ns_R.tolist() == ((use.bin_R + 1) * use.bin_ns).tolist()
    assert back.bytes_R.tolist() == use.bytes_R.tolist()
    assert set(back.rate_R.tolist()) == {10e9 / 8}


def test_no_rows_are_a_table_too():
    record = linked_record()
    record.history.link_use = LinkUseRecorder(3).use()
    table = pq.read_table(io.BytesIO(links_parquet(record)))
    assert tuple(table.column_names) == LINK_COLUMNS
    assert len(read_links_parquet(links_parquet(record)).bytes_R) == 0


def test_a_record_without_links_has_no_table_of_them():
    with pytest.raises(ValueError, match="were not counted"):
        links_parquet(record_of())


def test_servers_hold_the_whole_model_and_a_ring_has_none():
    record = linked_record(servers=3)
    rows = read_servers_csv(servers_csv(record).encode())
    assert model_bytes(rows, record.run).tolist() == record.costs.model_bytes_J.tolist()
    hosts = {name: [row["host"] for row in rows if row["job"] == name] for name in
             ("job-00", "job-01", "job-02", "job-03")}  # fmt: skip
    assert hosts == {
        "job-00": [],
        "job-01": [""],
        "job-02": ["k80-0", "v100-0", "k80-0"],
        "job-03": ["v100-0", "t4-0", "k80-0"],
    }


def test_a_table_that_is_no_parquet_is_refused():
    with pytest.raises(SpecError, match="not a Parquet file"):
        read_links_parquet(b"PAR1")
