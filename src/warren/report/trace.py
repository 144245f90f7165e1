"""The run as a Chrome trace (chrome://tracing, Perfetto): one track a device.

A process is a host; its threads are the devices' COMP lanes. Synchronization stands on a second
track of each device as asynchronous events, since it may overlap itself. A further process shows
each job from arrival to finish. Times are microseconds of cluster time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from warren.report.metrics import last_end_ns
from warren.report.record import Record
from warren.report.slices import Slices, joined, joined_to_fit

_JOBS_PROCESS: Final = 0
_SECOND: Final = 1_000_000
"""Added to a device's thread number to number the track of its synchronization."""


def chrome_trace(record: Record, max_events: int = 200_000) -> bytes:
    """Return the trace as JSON bytes with at most about ``max_events`` events.

    Beyond that, synchronization is left out and adjacent COMP slices of one job are joined; the
    ``otherData`` of the trace then says so under ``capped``.
    """
    # Events are written as text one by one, without a dict for each.
    line = record.history.timeline
    fixed = [*_metadata(record), *_job_spans(record)]
    room = max(1, max_events - len(fixed))
    slices, capped = joined(line, -1), None
    # A row of the timeline is three events: its COMP, and begin and end of its synchronization.
    if 3 * len(line) > room:
        slices, dropped = joined_to_fit(line, room)
        capped = (
            f"{len(line)} tasks or stretches are drawn as {len(slices)} joined COMP slices, "
            f"{dropped} short ones left out, without synchronization"
        )
    events = [*fixed, *_comp(record, slices), *([] if capped else _sync(record))]
    header = record.history.header
    other = {
        "run": header.run,
        "world": header.world,
        "place": header.place,
        "grain": header.grain,
        "capped": capped,
    }
    text = ",\n".join(events)
    head = f'{{"displayTimeUnit":"ms","otherData":{json.dumps(other)},"traceEvents":[\n'
    return f"{head}{text}\n]}}\n".encode()


def _metadata(record: Record) -> Iterator[str]:
    """Yield the events that name processes and threads and put them in order."""
    host_of = _host_numbers(record)
    yield _meta("process_name", _JOBS_PROCESS, 0, "jobs")
    yield _sorted_at("process_sort_index", _JOBS_PROCESS, 0, 0)
    for host, number in host_of.items():
        yield _meta("process_name", number, 0, host)
        yield _sorted_at("process_sort_index", number, 0, number)
    for device in record.run.cluster.devices:
        number = host_of[device.host]
        for offset, suffix in ((0, ""), (_SECOND, " sync")):
            yield _meta("thread_name", number, device.index + offset, device.name + suffix)
            place = 2 * device.index + bool(offset)
            yield _sorted_at("thread_sort_index", number, device.index + offset, place)


def _meta(kind: str, process: int, thread: int, name: str) -> str:
    """Return the event that names a process or a thread."""
    args = json.dumps({"name": name})
    return f'{{"ph":"M","name":"{kind}","pid":{process},"tid":{thread},"args":{args}}}'


def _sorted_at(kind: str, process: int, thread: int, place: int) -> str:
    """Return the event that says where among others a process or a thread is shown."""
    args = f'{{"sort_index":{place}}}'
    return f'{{"ph":"M","name":"{kind}","pid":{process},"tid":{thread},"args":{args}}}'


def _host_numbers(record: Record) -> dict[str, int]:
    """Return for each host its process number, after that of the jobs, in cluster order."""
    hosts = dict.fromkeys(device.host for device in record.run.cluster.devices)
    return {host: number for number, host in enumerate(hosts, start=_JOBS_PROCESS + 1)}


def _job_spans(record: Record) -> Iterator[str]:
    """Yield each job from arrival to finish, or to the last end of a task if it did not finish."""
    for job, end_ns in zip(record.run.workload.jobs, last_end_ns(record).tolist(), strict=True):
        args = {"status": record.history.status(job.index), "model": job.model, "scale": job.scale}
        what = f'"cat":"job","id":"j{job.index}","name":{json.dumps(job.name)}'
        where = f'"pid":{_JOBS_PROCESS},"tid":0'
        yield (f'{{"ph":"b",{what},{where},"ts":{_us(job.arrival_ns)},"args":{json.dumps(args)}}}')
        yield f'{{"ph":"e",{what},{where},"ts":{_us(end_ns)}}}'


def _comp(record: Record, slices: Slices) -> Iterator[str]:
    """Yield the COMP slices of all devices as complete events."""
    names = [json.dumps(job.name) for job in record.run.workload.jobs]
    host = _host_of_device(record)
    columns = zip(
        slices.device_S.tolist(),
        slices.job_S.tolist(),
        slices.start_ns_S.tolist(),
        slices.end_ns_S.tolist(),
        slices.round_S.tolist(),
        slices.last_round_S.tolist(),
        slices.tasks_S.tolist(),
        strict=True,
    )
    for device, job, start, end, first, last, tasks in columns:
        yield (
            f'{{"ph":"X","cat":"comp","name":{names[job]},"pid":{host[device]},"tid":{device},'
            f'"ts":{_us(start)},"dur":{_us(end - start)},'
            f'"args":{{"rounds":"{first}-{last}","tasks":{tasks}}}}}'
        )


def _sync(record: Record) -> Iterator[str]:
    """Yield the synchronization of each timeline row, from COMP end to end, as asynchronous events.

    Only these may overlap on one track; complete events must nest.
    """
    names = [json.dumps(job.name) for job in record.run.workload.jobs]
    host, line = _host_of_device(record), record.history.timeline
    columns = zip(
        line.device_R.tolist(),
        line.job_R.tolist(),
        line.comp_end_ns_R.tolist(),
        line.end_ns_R.tolist(),
        strict=True,
    )
    for row, (device, job, start, end) in enumerate(columns):
        what = f'"cat":"sync","id":"s{row}","name":{names[job]}'
        where = f'"pid":{host[device]},"tid":{device + _SECOND}'
        yield f'{{"ph":"b",{what},{where},"ts":{_us(start)}}}'
        yield f'{{"ph":"e",{what},{where},"ts":{_us(end)}}}'


def _host_of_device(record: Record) -> list[int]:
    """Return the process number of each device's host."""
    numbers = _host_numbers(record)
    return [numbers[device.host] for device in record.run.cluster.devices]


def _us(time_ns: int) -> str:
    """Write nanoseconds as microseconds with three decimals, without rounding to a double."""
    return f"{time_ns // 1000}.{time_ns % 1000:03d}"
