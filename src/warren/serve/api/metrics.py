"""Figures of the service as Prometheus reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from warren.serve.api.routes.hosts import use_of
from warren.serve.api.service import Histogram, Service
from warren.serve.records.jobs import JobState

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def metrics_text(service: Service, *, by_user: bool) -> str:
    """Return all figures; ``by_user`` adds the waiting jobs of each user."""
    queue = service.queue
    states: Counter[JobState] = Counter(dict.fromkeys(JobState, 0))
    waiting: Counter[str] = Counter()
    starts = 0
    for job in queue.jobs.values():
        states[job.state] += 1
        starts += len(job.attempts)
        if job.state is JobState.QUEUED:
            waiting[job.user] += 1
    lines = [
        *_family("warren_jobs", "gauge", "Jobs by state."),
        *(_line("warren_jobs", {"state": state.value}, n) for state, n in states.items()),
        *_family("warren_devices", "gauge", "Devices by type and use."),
        *_devices(service),
        *_family("warren_hosts_connected", "gauge", "Hosts whose agent is connected."),
        _line("warren_hosts_connected", {}, sum(m.connected for m in queue.machines.values())),
        *_family("warren_starts_total", "counter", "Attempts of jobs that were begun."),
        _line("warren_starts_total", {}, starts),
        *_family("warren_changes_total", "counter", "Changes of the queue since the start."),
        _line("warren_changes_total", {}, service.daemon.changed.count),
        *_family("warren_disk_error", "gauge", "1 while the journal cannot be written."),
        _line("warren_disk_error", {}, int(service.daemon.disk_error is not None)),
        *_family("warren_submit_seconds", "histogram", "Time to answer a submission."),
        *_histogram("warren_submit_seconds", service.submit_latency),
    ]
    if by_user:
        lines += _family("warren_queue_length", "gauge", "Jobs that wait for devices, by user.")
        lines += [_line("warren_queue_length", {"user": u}, n) for u, n in sorted(waiting.items())]
    return "\n".join(lines) + "\n"


def _devices(service: Service) -> Iterator[str]:
    found: Counter[tuple[str, str]] = Counter()
    for machine in service.queue.machines.values():
        for device in machine.machine.devices:
            found[device.type, use_of(machine, device.id)] += 1
    for (type_, use), count in sorted(found.items()):
        yield _line("warren_devices", {"type": type_, "use": use}, count)


def _histogram(name: str, histogram: Histogram) -> Iterator[str]:
    count = 0
    bounds = [*map(str, histogram.BOUNDS_S), "+Inf"]
    for bound, one in zip(bounds, histogram.counts, strict=True):
        count += one
        yield _line(f"{name}_bucket", {"le": bound}, count)
    yield _line(f"{name}_sum", {}, histogram.sum_s)
    yield _line(f"{name}_count", {}, count)


def _family(name: str, type_: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {type_}"


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    inside = ",".join(f'{key}="{text.translate(_ESCAPES)}"' for key, text in labels.items())
    return f"{name}{{{inside}}} {value:.9g}" if inside else f"{name} {value:.9g}"
