"""The report of one run or of several as one HTML file that fetches nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from warren.report.compare import compare, jct_errors
from warren.report.compare import means as mean_rows
from warren.report.fairness.users import user_shares
from warren.report.metrics import JobRow, job_rows, loss_sentence, mean_wait_s, summary
from warren.report.number_text import duration
from warren.report.number_text import number as number_text
from warren.report.overruns import needed_time_scale, slow_machine
from warren.report.page.answers import answer_lines, answers_of
from warren.report.page.colours import Colouring, colour_css, colouring
from warren.report.page.curves import jct_chart, learning_charts
from warren.report.page.fill import fill, source
from warren.report.page.gantt import MOST_DEVICES, MOST_NAMED, gantt
from warren.report.page.head import bound_sentence, subtitle, tiles
from warren.report.page.jobs import jobs_table, phases_table, users_table
from warren.report.page.links import link_charts, link_table
from warren.report.page.seeds import by_group, seeds_chart
from warren.report.page.svg import Scale
from warren.report.page.use import jobs_chart, share_chart, use_chart
from warren.report.page.versus import comparison_table, means_table, prediction
from warren.report.page.waits import waits_chart
from warren.report.phases import phase_lines
from warren.report.record import Record
from warren.report.seeds import Row, seeds_note
from warren.report.slices import span_ns

MOST_RUNS: Final = 8
"""Most runs that are shown in full beside their comparison."""


def page(
    record: Record | Sequence[Record],
    comparison: Sequence[Row] | None = None,
    against: str | None = None,
) -> str:
    """Make the HTML page of a run, or of several with their comparison.

    ``comparison``: rows of ``compare`` to show; None: they are made from the records. ``against``:
    a policy that the others are set against, seed by seed.
    """
    records = [record] if isinstance(record, Record) else list(record)
    if len(records) == 1 and comparison is None:
        return _document(records[0].run.name, _run(records[0], 0))
    rows = compare(records) if comparison is None else list(comparison)
    # Runs of several seeds are drawn as one band a policy, or curves would hide each other.
    groups = by_group(records, rows)
    chart = seeds_chart(groups) if groups else jct_chart(records, [_title(one) for one in records])
    note = ""
    if len(records) > MOST_RUNS:
        note = (
            f"{MOST_RUNS} of {len(records)} runs are shown in full, of each policy the first ones."
        )
    body = fill(
        "comparison.html",
        count=len(rows),
        means=means_table(rows, against),
        seeds_note=seeds_note(mean_rows(rows)),
        table=comparison_table(rows),
        chart=chart,
        predictions=[prediction(error) for error in jct_errors(records)],
        runs=[
            {"number": k, "title": _title(records[k]), "body": _run(records[k], k)}
            for k in _shown(records)
        ],
        note=note,
    )
    return _document("comparison", body)


def _shown(records: Sequence[Record]) -> list[int]:
    """Choose the runs shown in full: the first of each policy, then the second, in their order."""
    # A run's turn is how many of its policy stand before it.
    before: Counter[str] = Counter()
    turns = []
    for at, record in enumerate(records):
        turns.append((before[record.place], at))
        before[record.place] += 1
    return sorted(at for _, at in sorted(turns)[:MOST_RUNS])


def _title(record: Record) -> str:
    """Return the title of a run beside others."""
    return f"{record.run.name} · {record.place} · {_world(record)}"


def _world(record: Record) -> str:
    """Return the word for where a run took place."""
    return "live" if record.live else "simulated"


def _run(record: Record, number: int) -> Markup:
    """Make all that is shown of one run; ``number`` tells its links from those of others."""
    found = summary(record)
    colours = colouring(record.run.workload.jobs)
    # One time axis for all charts, so that they can be read above each other.
    span_s = _span(record)
    learned = learning_charts(record, colours, span_s)
    counted = record.history.link_use is not None
    return fill(
        "run.html",
        number=number,
        name=record.run.name,
        world=_world(record),
        subtitle=subtitle(found),
        tiles=tiles(found, mean_wait_s(record)),
        bound=bound_sentence(found),
        slow_machine=slow_machine(found, needed_time_scale(record) if found["overruns"] else None),
        losses=loss_sentence(found),
        returns=[
            one | {"at": number_text(one["time_s"])} for one in found.get("rolled_back", [])[:50]
        ],
        waits=waits_chart(record, colours, span_s),
        gantt=gantt(record, colours, span_s),
        charts=[
            ("Devices computing, by type", use_chart(record, span_s)),
            (f"Devices computing, by {colours.by}", share_chart(record, colours, span_s)),
            ("Share of jobs by JCT", jct_chart([record], [""])),
            ("Jobs in the system", jobs_chart(record, span_s)),
            *((name.capitalize(), chart) for name, chart in learned),
        ],
        links=link_charts(record, colours, span_s) if counted else [],
        link_table=link_table(record, colours) if counted else "",
        answers=answer_lines(record) if record.history.answers else [],
        failures=_failures(record),
        phases=phases_table(found.get("phases", [])),
        advice=phase_lines(found)[1:],
        users=users_table(user_shares(record)),
        jobs=jobs_table(job_rows(record), colours),
        info=_info(record, colours, span_s),
    )


def _span(record: Record) -> Scale:
    """Return the time axis of a run in seconds: first arrival to last end."""
    # A finish may be later than the last end of a task, by an evaluation.
    first_ns, last_ns = span_ns(record.history.timeline)
    arrivals = [job.arrival_ns for job in record.run.workload.jobs]
    low = min([first_ns, *arrivals]) / 1e9
    high = max([last_ns, *record.history.finish_ns_J.tolist()]) / 1e9
    return Scale(low=low, high=high if high > low else low + 1.0)


def _failures(record: Record) -> list[tuple[str, str]]:
    """Return name and reason of the jobs that failed, of the first 50."""
    jobs = record.run.workload.jobs
    failed = sorted(record.history.failed.items())[:50]
    return [(jobs[job].name, reason) for job, reason in failed]


def _info(record: Record, colours: Colouring, span_s: Scale) -> Markup:
    """Return what tooltips say, as JSON that cannot end its own element."""
    rows = job_rows(record) if len(colours.class_J) <= MOST_NAMED else []
    told = bool(record.history.answers)
    info = {
        "from": span_s.low,
        "to": span_s.high,
        "devices": [device.name for device in record.run.cluster.devices[:MOST_DEVICES]],
        "jobs": [
            [row["job"], ", ".join([_tooltip(row), *(answers_of(record, job) if told else ())])]
            for job, row in enumerate(rows)
        ],
    }
    # A job may be called "</script>": inside JSON strings the escapes mean the same characters.
    text = json.dumps(info).replace("<", "\\u003c").replace("&", "\\u0026")
    return Markup(text)


def _tooltip(row: JobRow) -> str:
    """Tell a job in the line of its tooltip."""
    asked = f"{row['rounds'] or '?'} rounds x {row['scale']}"
    took = f"JCT {duration(row['jct_s'])}" if row["jct_s"] is not None else row["status"]
    return f"{row['model'] or 'measured'}, {asked}, weight {row['weight']:g}, {took}"


def _document(title: str, body: Markup) -> str:
    """Make the whole page, with style and script in it."""
    css = source("page.css")
    js = source("page.js")
    colours = Markup(colour_css())
    return fill("document.html", title=title, body=body, css=css, js=js, colours=colours) + "\n"
