"""The Chrome trace and the joining of slices."""

import json

import numpy as np
from report_world import record_of

from warren.report.slices import joined, joined_to_fit
from warren.report.trace import chrome_trace


def load(record, **options):
    return json.loads(chrome_trace(record, **options))


def test_every_device_has_a_named_track_and_every_task_a_slice_on_it():
    record = record_of(jobs=5)
    trace = load(record)
    names = {
        (e["pid"], e["tid"]): e["args"]["name"]
        for e in trace["traceEvents"]
        if e["ph"] == "M" and e["name"] == "thread_name"
    }
    for device in record.run.cluster.devices:
        assert device.name in names.values()
        assert f"{device.name} sync" in names.values()
    line = record.history.timeline
    slices = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    got = sorted((names[e["pid"], e["tid"]], e["name"], e["ts"], e["dur"]) for e in slices)
    want = sorted(
        (
            record.run.cluster.devices[line.device_R[r]].name,
            record.run.workload.jobs[line.job_R[r]].name,
            int(line.start_ns_R[r]) / 1000,
            int(line.comp_end_ns_R[r] - line.start_ns_R[r]) / 1000,
        )
        for r in range(len(line))
    )
    assert got == want
    assert trace["otherData"]["capped"] is None


def test_synchronizations_and_jobs_are_pairs_of_asynchronous_events():
    record = record_of(jobs=4)
    events = load(record)["traceEvents"]
    for kind, count in (("sync", len(record.history.timeline)), ("job", 4)):
        begins = {e["id"]: e for e in events if e["ph"] == "b" and e["cat"] == kind}
        ends = {e["id"]: e for e in events if e["ph"] == "e" and e["cat"] == kind}
        assert len(begins) == len(ends) == count
        assert all(ends[key]["ts"] >= begins[key]["ts"] for key in begins)
    job = next(e for e in events if e["ph"] == "e" and e.get("id") == "j2")
    assert job["ts"] == int(record.history.finish_ns_J[2]) / 1000


def test_a_capped_trace_is_small_and_says_so():
    record = record_of(jobs=12)
    whole, few = load(record), load(record, max_events=120)
    assert len(few["traceEvents"]) <= 120 < len(whole["traceEvents"])
    assert "joined" in few["otherData"]["capped"]
    assert not any(e.get("cat") == "sync" for e in few["traceEvents"])


def test_names_cannot_break_the_trace():
    names = ['"quoted"', "back\\slash", "new\nline"]
    events = load(record_of(jobs=3, names=names))["traceEvents"]
    assert {e["name"] for e in events if e["ph"] == "X"} == set(names)


def test_joining_keeps_tasks_and_busy_time_and_never_joins_two_jobs():
    line = record_of(jobs=9).history.timeline
    for gap_ns in (-1, 0, 50_000_000, 10**12):
        slices = joined(line, gap_ns)
        assert slices.tasks_S.sum() == line.tasks_R.sum()
        assert slices.busy_ns_S.sum() == line.busy_ns_R.sum()
        assert (slices.end_ns_S >= slices.start_ns_S + slices.busy_ns_S).all()
    assert len(joined(line, -1)) == len(line)
    widest = joined(line, 10**15)
    same = (np.diff(widest.device_S) == 0) & (np.diff(widest.job_S) == 0)
    assert not same.any()


def test_joining_to_fit_leaves_out_only_the_shortest():
    line = record_of(jobs=9).history.timeline
    slices, dropped = joined_to_fit(line, 7)
    assert len(slices) == 7
    assert dropped > 0
    everything, none = joined_to_fit(line, 10**6)
    assert len(everything) == len(line)
    assert none == 0
