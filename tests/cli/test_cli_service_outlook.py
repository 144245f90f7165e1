"""``warren why`` and ``warren what-if``: what is asked, and what people read of the answer."""

from __future__ import annotations

import time

import pytest
from cli_runs import Warren
from scripted_service import ScriptedService
from service_script import Script

from warren.cli.service.forecasts import outlook

WHY = {
    "cause": "devices",
    "also": [],
    "evidence": "needs 2 H100 on one host; 1 is free on h1",
    "next": "h1 has 2 in about 2 h, when job 9 of ana ends",
    "confirmed": True,
}
ROWS = [
    {"id": "12", "start_before_s": 7260.0, "start_after_s": 60.0},
    {"id": "13", "start_before_s": 0.0, "start_after_s": 90.0},
    {"id": "14", "start_before_s": 30.0, "start_after_s": 30.4},
    {"id": "15", "start_before_s": 30.0, "start_after_s": None},
    {"id": "16", "start_before_s": None, "start_after_s": None},
    {"id": "17", "start_before_s": None, "start_after_s": 5.0},
]


def test_why_prints_the_cause_what_can_be_done_and_whether_it_is_confirmed(
    warren: Warren, service: ScriptedService, script: Script
) -> None:
    script.answers["GET /v1/jobs/12/why"] = WHY
    assert warren("why", "12").out.splitlines() == [
        "devices: needs 2 H100 on one host; 1 is free on h1",
        "next: h1 has 2 in about 2 h, when job 9 of ana ends",
        "confirmed: without this cause the job would start now",
    ]
    assert warren("why", "12", "--json").json == WHY
    both = {**WHY, "also": ["order"], "confirmed": False}
    assert outlook.why_lines(both)[-1] == "no single cause is enough; also: order"
    runs = {**WHY, "cause": "", "evidence": "it runs on h1", "next": ""}
    assert outlook.why_lines(runs) == ["it does not wait: it runs on h1"]
    script.answers["GET /v1/jobs/12/why"] = {**WHY, "evidence": "\x1b[2J"}
    assert "\x1b" not in warren("why", "12").out


def test_what_if_sends_all_changes_and_prints_the_jobs_that_start_at_another_time(
    warren: Warren, service: ScriptedService, script: Script
) -> None:
    script.answers["POST /v1/what-if"] = ROWS
    words = "--cancel 9 --priority 12=high --priority 13=-2 --gpus 12=2 --quota ana:gpu=4 "
    words += "--quota group:vision:H100=0 --drain h3 --undrain h2 --add 4xH100 --order backfill"
    words += " --place srtf"
    lines = warren("what-if", *words.split()).out.splitlines()
    assert service.asked[-1].body == {
        "cancel": ["9"],
        "priority": [{"job": "12", "priority": 1000}, {"job": "13", "priority": -2}],
        "devices": [{"job": "12", "devices": 2}],
        "quota": [
            {"subject": "user:ana", "type": "gpu", "devices": 4},
            {"subject": "group:vision", "type": "H100", "devices": 0},
        ],
        "undrain": ["h2"],
        "drain": [{"host": "h3", "from_s": None}],
        "add": [{"devices": 4, "type": "H100"}],
        "order": "backfill",
        "place": "srtf",
    }
    assert [line.split() for line in lines[:3]] == [
        ["ID", "START", "THEN", "CHANGE"],
        ["12", "in", "2", "h", "1", "min", "in", "1", "min", "2", "h", "earlier"],
        ["13", "now", "in", "1", "min", "30", "s", "1", "min", "30", "s", "later"],
    ]
    assert lines[-1] == "of 6 waiting jobs: 2 earlier, 1 later, 1 never, 2 as before"
    assert warren("what-if", "--cancel", "9", "--json").json == ROWS
    assert outlook.what_if_lines(ROWS[4:5], None) == ["of 1 waiting job: 1 as before"]


def test_the_time_of_a_drain_is_the_next_one_of_the_clock_or_in_some_time(
    warren: Warren, service: ScriptedService, script: Script
) -> None:
    script.answers["POST /v1/what-if"] = []
    for typed in ("2h", "00:00", "23:59"):
        warren("what-if", "--drain", "h3", "--from", typed)
        from_s = service.asked[-1].body["drain"][0]["from_s"]
        ahead_s = from_s - time.time()
        if typed == "2h":
            assert ahead_s == pytest.approx(7200, abs=60)
        else:
            assert -60 < ahead_s <= 86_400
            assert time.strftime("%H:%M", time.localtime(from_s + 1)) == typed


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "name a change"),
        ("--from 18:00 --cancel 2", "add --drain HOST"),
        ("--drain h --from 25:00", "time of a day"),
        ("--drain h --from 6pm", "is no time"),
        ("--priority 12", "12=high"),
        ("--gpus 12=0", "at least 1"),
        ("--quota gpu=3", "ana:gpu=4"),
        ("--add H100", "4xH100"),
        ("--order fifo", "strict, backfill"),
    ],
)
def test_a_wrong_change_is_one_line_and_asks_nothing(
    warren: Warren, service: ScriptedService, line: str, said: str
) -> None:
    found = warren("what-if", *line.split())
    assert found.code == 2
    assert said in found.err[-1]
    assert not service.asked
