"""The report of one run or of several as one HTML file that fetches nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from warren.report.compare import compare, jct_errors
from warren.report.metrics import job_rows, loss_sentence, summary
from warren.report.number_text import duration, number
from warren.report.page.colours import Colouring, colour_css, colouring
from warren.report.page.curves import jct_chart, learning_charts
from warren.report.page.gantt import MOST_DEVICES, MOST_NAMED, gantt
from warren.report.page.head import bound_sentence, subtitle, tiles
from warren.report.page.jobs import jobs_table
from warren.report.page.script import JS
from warren.report.page.seeds import by_group, seeds_chart
from warren.report.page.style import CSS
from warren.report.page.svg import Scale, escape
from warren.report.page.use import jobs_chart, share_chart, use_chart
from warren.report.page.versus import comparison_table, prediction
from warren.report.record import Record
from warren.report.slices import span_ns

MOST_RUNS: Final = 8
"""Runs up to this number are shown in full beside their comparison."""


def page(
    record: Record | Sequence[Record],
    comparison: Sequence[Mapping[str, Any]] | None = None,
    against: str | None = None,
) -> str:
    """The HTML page of a run, or of several with their comparison.

    Parameters
    ----------
    record
        One run, or runs to set side by side.
    comparison
        Rows of ``compare`` to show; made from the records where it is None.
    against
        A policy that the others are set against, seed by seed.
    """
    records = [record] if isinstance(record, Record) else list(record)
    if len(records) == 1 and comparison is None:
        return _document(records[0].run.name, _run(records[0], 0))
    rows = compare(records) if comparison is None else list(comparison)
    groups = by_group(records, rows)
    parts = [
        f"<h1>{len(rows)} runs side by side</h1>",
        '<section data-run id="all">',
        comparison_table(rows, against),
        "<h3>Share of finished jobs by JCT</h3>",
        seeds_chart(groups) if groups else jct_chart(records, [_title(one) for one in records]),
        "</section>",
        *(
            f'<section data-run id="prediction-{k}"><h2>Predicted against live</h2>'
            f"{prediction(error)}</section>"
            for k, error in enumerate(jct_errors(records))
        ),
        *(_folded(records[k], k) for k in _some(records)),
    ]
    if len(records) > MOST_RUNS:
        parts.append(
            f'<p class="note">{MOST_RUNS} of {len(records)} runs are shown in full, of each policy '
            "the first ones.</p>"
        )
    return _document("comparison", "".join(parts))


def _some(records: Sequence[Record]) -> list[int]:
    """Which are shown in full: the first of each policy, then the second, in their order."""
    before: Counter[str] = Counter()
    turns = []
    for at, record in enumerate(records):
        turns.append((before[record.place], at))
        before[record.place] += 1
    return sorted(at for _, at in sorted(turns)[:MOST_RUNS])


def _title(record: Record) -> str:
    return f"{record.run.name} · {record.place} · {_world(record)}"


def _world(record: Record) -> str:
    return "live" if record.live else "simulated"


def _folded(record: Record, number: int) -> str:
    name = escape(_title(record))
    return f'<details id="run-{number}"><summary>{name}</summary>{_run(record, number)}</details>'


def _run(record: Record, number: int) -> str:
    found, colours, span_s = summary(record), colouring(record.run.workload.jobs), _span(record)
    learned = learning_charts(record, colours, span_s)
    parts = [
        f'<section data-run id="section-{number}">',
        f'<h1>{escape(record.run.name)}<span class="badge">{_world(record)}</span></h1>',
        f'<p class="sub">{escape(subtitle(found))}</p>',
        tiles(found),
        f"<p>{escape(bound_sentence(found))}</p>",
        _losses(found),
        "<h2>Schedule by device</h2>",
        gantt(record, colours, span_s),
        '<div class="two">',
        f"<div><h3>Devices computing, by type</h3>{use_chart(record, span_s)}</div>",
        _if(share_chart(record, colours, span_s), f"Devices computing, by {colours.by}"),
        f"<div><h3>Share of jobs by JCT</h3>{jct_chart([record], [''])}</div>",
        f"<div><h3>Jobs in the system</h3>{jobs_chart(record, span_s)}</div>",
        *(_if(chart, name.capitalize()) for name, chart in learned),
        "</div>",
        _failures(record),
        "<h2>Jobs</h2>",
        jobs_table(job_rows(record), colours),
        _info(record, colours, span_s),
        "</section>",
    ]
    return "".join(parts)


def _losses(found: Mapping[str, Any]) -> str:
    """What was lost and ran again, and each return of a job to its checkpoint."""
    sentence = loss_sentence(found)
    lines = [
        f"<li>{escape(one['job'])} at {number(one['time_s'])} s, from round {one['passed']} "
        f"to {one['round']}: {escape(one['reason'])}</li>"
        for one in found.get("rolled_back", [])[:50]
    ]
    told = f"<ul>{''.join(lines)}</ul>" if lines else ""
    return f"<p>Losses: {escape(sentence)}.</p>{told}" if sentence else ""


def _if(chart: str, title: str) -> str:
    return f"<div><h3>{escape(title)}</h3>{chart}</div>" if chart else ""


def _span(record: Record) -> Scale:
    """The time axis of a run in seconds: first arrival to last end."""
    first_ns, last_ns = span_ns(record.history.timeline)
    arrivals = [job.arrival_ns for job in record.run.workload.jobs]
    low = min([first_ns, *arrivals]) / 1e9
    high = max([last_ns, *record.history.finish_ns_J.tolist()]) / 1e9
    return Scale(low=low, high=high if high > low else low + 1.0)


def _failures(record: Record) -> str:
    jobs = record.run.workload.jobs
    lines = [
        f'<li><b class="failed">{escape(jobs[job].name)}</b>: {escape(reason)}</li>'
        for job, reason in sorted(record.history.failed.items())[:50]
    ]
    return f"<h2>Failed jobs</h2><ul>{''.join(lines)}</ul>" if lines else ""


def _info(record: Record, colours: Colouring, span_s: Scale) -> str:
    """What tooltips say, as JSON that cannot end its own element."""
    rows = job_rows(record) if len(colours.class_J) <= MOST_NAMED else []
    info = {
        "from": span_s.low,
        "to": span_s.high,
        "devices": [device.name for device in record.run.cluster.devices[:MOST_DEVICES]],
        "jobs": [[row["job"], _told(row)] for row in rows],
    }
    text = json.dumps(info).replace("<", "\\u003c").replace("&", "\\u0026")
    return f'<script type="application/json">{text}</script>'


def _told(row: Mapping[str, Any]) -> str:
    asked = f"{row['rounds'] or '?'} rounds x {row['scale']}"
    took = f"JCT {duration(row['jct_s'])}" if row["jct_s"] is not None else row["status"]
    return f"{row['model'] or 'measured'}, {asked}, weight {row['weight']:g}, {took}"


def _document(title: str, body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none';style-src 'unsafe-inline';script-src 'unsafe-inline'\">"
        f"<title>{escape(title)} · Warren</title><style>{CSS}{colour_css()}</style></head>"
        f"<body><main>{body}<footer>Times are cluster seconds. JCT is finish minus arrival; "
        "percentiles interpolate linearly; all figures cover finished jobs.</footer></main>"
        f'<div id="tip" role="status"></div><script>{JS}</script></body></html>\n'
    )
