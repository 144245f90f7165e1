"""What people see of a service beside simulations of what it did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warren.report.compare import comparison_lines
from warren.report.number_text import count
from warren.report.record import Record
from warren.runs.comparison.compared import Comparison
from warren.runs.comparison.observed import knows_lengths
from warren.runs.comparison.users_compared import hosts_crossed, user_lines, user_rows


def replay_lines(found: Comparison) -> Iterator[str]:
    """Yield the notes, a row a run, and what each user got of each."""
    records = [one.record for one in found.runs]
    yield from records[0].run.workload.notes
    yield from _notes(records[1:])
    yield from comparison_lines(found.rows())
    yield ""
    yield from user_lines(user_rows(records))


def _notes(simulated: Sequence[Record]) -> Iterator[str]:
    """Yield what simulated policies could do, or knew, that the service does not."""
    for record in simulated:
        if crossed := hosts_crossed(record):
            jobs = count(crossed, "job")
            yield f"{record.place}: gave {jobs} devices of several hosts, which a service does not"
        if knows_lengths(record.run):
            yield f"{record.place}: may know how long commands run, which a service does not"
