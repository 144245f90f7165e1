"""The exported tables and reading them back."""

import csv
import io
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_world import record_of

from warren.model.costs import CostTable
from warren.model.errors import SpecError
from warren.report import parquet
from warren.report.metrics import job_rows
from warren.report.tables import (
    devices_csv,
    jobs_csv,
    profile_csv,
    read_devices_csv,
    read_jobs_csv,
    read_profile_csv,
    read_profile_rows,
    read_timeline_parquet,
    timeline_parquet,
)

HEADER = (
    "job,arrival_s,start_s,finish_s,jct_s,weight,rounds,scale,status,model,batch,sync,user,"
    "group,seed"
)
LIVE = ",params_sha256,final_loss,numerics,app_sha256"
ODD = ['a,b "c"', "<b>&", "two\nlines", "ünïcode", "=1+1"]


def test_headers_are_those_of_the_contract():
    live = record_of(world="live")
    assert jobs_csv(record_of()).splitlines()[0] == HEADER
    assert jobs_csv(live).splitlines()[0] == HEADER + LIVE
    assert devices_csv(live).splitlines()[0] == "device,type,host"
    assert profile_csv(live).splitlines()[0] == "job,type,comp_s,sync_s"


@pytest.mark.parametrize("world", ["simulation", "live"])
def test_jobs_csv_comes_back_as_the_rows_it_was_made_from(world):
    record = record_of(jobs=5, world=world, names=ODD, failed=(3,))
    assert read_jobs_csv(jobs_csv(record).encode()) == job_rows(record)


def test_csv_reads_in_a_plain_reader_whatever_the_names():
    record = record_of(jobs=5, names=ODD)
    rows = list(csv.DictReader(io.StringIO(jobs_csv(record))))
    assert [row["job"] for row in rows] == ODD
    assert "\r" not in jobs_csv(record)


def test_devices_and_profile_come_back():
    record = record_of(jobs=4, tight=True)
    devices = read_devices_csv(devices_csv(record).encode())
    assert [d["device"] for d in devices] == [d.name for d in record.run.cluster.devices]
    rows = read_profile_rows(profile_csv(record).encode())
    assert len(rows) == int(record.costs.fits_JT.sum()) < 8
    first = next(r for r in rows if r["job"] == "job-01" and r["type"] == "V100")
    assert first["comp_s"] == int(record.costs.comp_ns_JT[1, 0]) / 1e9
    assert first["sync_s"] == int(record.costs.sync_ns_JT[1, 0]) / 1e9
    costs = read_profile_csv(profile_csv(record).encode(), record.run)
    np.testing.assert_array_equal(costs.comp_ns_JT, record.costs.comp_ns_JT)
    np.testing.assert_array_equal(costs.sync_ns_JT, record.costs.sync_ns_JT)
    np.testing.assert_array_equal(costs.fits_JT, record.costs.fits_JT)


@given(st.integers(0, 2**51), st.integers(0, 2**51))
def test_costs_come_back_to_the_nanosecond(comp_ns, sync_ns):
    """Of a task of up to 26 days: n / 1e9 in text, read, times 1e9, is nearer than half to n."""
    record = record_of(jobs=1, counts=(1,))
    costs = CostTable(
        comp_ns_JT=np.array([[comp_ns]]),
        sync_ns_JT=np.array([[sync_ns]]),
        fits_JT=np.array([[True]]),
    )
    text = profile_csv(replace(record, costs=costs))
    back = read_profile_csv(text.encode(), record.run)
    assert (back.comp_ns_JT[0, 0], back.sync_ns_JT[0, 0]) == (comp_ns, sync_ns)


def test_a_profile_of_another_run_is_refused():
    with pytest.raises(SpecError, match="no job job-03"):
        read_profile_csv(profile_csv(record_of(jobs=4)).encode(), record_of(jobs=3).run)


def test_timeline_comes_back_to_the_nanosecond_in_several_row_groups(monkeypatch):
    monkeypatch.setattr(parquet, "ROW_GROUP", 7)
    record = record_of(jobs=6, names=[f"n {k}" for k in range(6)])
    data = timeline_parquet(record)
    assert pq.ParquetFile(pa.BufferReader(data)).num_row_groups > 3
    back = read_timeline_parquet(data)
    want = record.history.timeline
    assert back.jobs == record.history.header.jobs
    assert back.devices == record.history.header.devices
    for name in ("job", "round", "rounds", "shard", "tasks", "device"):
        np.testing.assert_array_equal(
            getattr(back.timeline, f"{name}_R"), getattr(want, f"{name}_R")
        )
    for name in ("start", "comp_end", "end", "busy"):
        np.testing.assert_array_equal(
            getattr(back.timeline, f"{name}_ns_R"), getattr(want, f"{name}_ns_R")
        )


def test_timeline_columns_and_kinds_are_those_of_the_contract():
    table = pq.read_table(pa.BufferReader(timeline_parquet(record_of())))
    assert table.column_names == [
        "job", "round", "rounds", "shard", "tasks", "device", "start_s", "comp_end_s", "end_s",
        "busy_s",
    ]  # fmt: skip
    assert pa.types.is_dictionary(table.schema.field("job").type)
    assert pa.types.is_dictionary(table.schema.field("device").type)
    assert table.schema.field("start_s").type == pa.float64()


def test_the_same_record_gives_the_same_bytes():
    assert timeline_parquet(record_of(seed=3)) == timeline_parquet(record_of(seed=3))


def test_an_empty_timeline_can_be_written_and_read():
    from dataclasses import replace

    from warren.model.timeline import Timeline

    record = record_of(jobs=2)
    empty = replace(record.history, timeline=Timeline.from_events([]))
    back = read_timeline_parquet(timeline_parquet(replace(record, history=empty)))
    assert len(back.timeline) == 0


def test_a_malformed_table_names_every_line_and_field():
    text = jobs_csv(record_of(jobs=3)).splitlines()
    text[1] = text[1].replace("job-00,", "job-00,x", 1)
    text[3] = text[3] + ",extra"
    with pytest.raises(SpecError) as caught:
        read_jobs_csv("\n".join(text).encode())
    assert [problem.line for problem in caught.value.problems] == [2, 4]
    assert caught.value.problems[0].field == "arrival_s"


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"job,arrival_s\n"])
def test_what_is_no_table_is_refused(data):
    with pytest.raises(SpecError):
        read_jobs_csv(data)
    with pytest.raises(SpecError):
        read_timeline_parquet(data)


def test_a_timeline_with_a_column_of_another_kind_is_refused():
    table = pq.read_table(pa.BufferReader(timeline_parquet(record_of())))
    sink = pa.BufferOutputStream()
    place = table.column_names.index("round")
    texts = pa.array(["x"] * table.num_rows)
    pq.write_table(table.set_column(place, "round", texts), sink)
    with pytest.raises(SpecError, match="round"):
        read_timeline_parquet(sink.getvalue().to_pybytes())


def test_reading_a_timeline_starts_no_thread_of_arrows(tmp_path):
    """A process that ends while such a thread begins is aborted, whatever it has printed."""
    (tmp_path / "timeline.parquet").write_bytes(parquet.timeline_parquet(record_of()))
    code = """
import os, sys
from pathlib import Path
import pyarrow.parquet
from warren.report.parquet import read_timeline_parquet
before = len(os.listdir("/proc/self/task"))
read_timeline_parquet(Path(sys.argv[1]).read_bytes())
print(len(os.listdir("/proc/self/task")) - before)
"""
    told = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "timeline.parquet")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert told.stdout == "0\n"


@pytest.mark.parametrize("loss", ["nan", "inf", "-inf"])
def test_a_job_whose_training_went_wrong_leaves_a_table_that_can_be_read(loss):
    header, first, *others = jobs_csv(record_of(world="live")).splitlines()
    cells = first.split(",")
    cells[header.split(",").index("final_loss")] = loss
    rows = read_jobs_csv("\n".join([header, ",".join(cells), *others, ""]).encode())
    assert str(rows[0]["final_loss"]) == loss
