"""Commands of the service: what they print of its answers, and what they wait for."""

from __future__ import annotations

import re
from typing import Any

import pytest
from cli_runs import Warren
from scripted_service import ScriptedService, chunked
from service_script import ENDED, ROW, SHOWN, Script


def test_the_queue_is_a_table_whose_last_column_is_the_reason(
    warren: Warren, service: ScriptedService, script: Script
) -> None:
    running = {
        **ROW,
        "id": "11",
        "state": "running",
        "started_s": 1e9,
        "host": "gpu1",
        "reason": "",
    }
    script.answers["GET /v1/jobs"] = [running, ROW]
    found = warren("queue")
    head, first, second = found.out.splitlines()
    assert head.split() == ["ID", "NAME", "USER", "STATE", "DEVICES", "FOR", "REASON"]
    assert first.endswith("  on gpu1")
    assert re.search(r"^12 +train +ana +queued +2 H100 +.*  devices: needs 2$", second)
    assert service.asked[-1].path == "/v1/jobs?state=queued&state=held&state=running&limit=501"


def test_the_queue_as_json_is_what_the_service_sent(
    warren: Warren, service: ScriptedService, script: Script
) -> None:
    script.answers["GET /v1/jobs"] = [ROW]
    script.answers["GET /v1/service"] = {"caller": {"user": "ana", "role": "user"}}
    assert warren("queue", "--json").json == [ROW]
    assert service.asked[-1].path == "/v1/jobs?"
    assert warren("queue", "--state", "held", "--json").json == [ROW]
    assert service.asked[-1].path == "/v1/jobs?state=held"
    assert warren("queue", "--mine", "--all", "--limit", "2", "--json").json == [ROW]
    assert service.asked[-1].path == "/v1/jobs?user=ana&limit=2"


def test_an_empty_queue_says_so_apart_from_its_answer(
    warren: Warren, service: ScriptedService, script: Script
) -> None:
    script.answers["GET /v1/jobs"] = (200, [])
    assert warren("queue") == (0, "", ["no jobs; --all lists those that have ended"])
    assert warren("queue", "--json").json == []


def test_expected_starts_have_a_column_where_there_are_any() -> None:
    from warren.cli.service.listing import queue_lines

    head, first, second = queue_lines([{**ROW, "expected_s": 1e9 + 7260}, ROW], 1e9, None)
    assert head.split()[-3:] == ["FOR", "START", "REASON"]
    assert "  within 2 h 1 min  devices: needs 2" in first
    assert "within" not in second


def test_neighbors_of_an_array_share_a_line() -> None:
    from warren.cli.service.listing import queue_lines

    rows = [{**ROW, "id": f"4_{index}", "array": "4"} for index in range(1, 1001)]
    rows[500] = {**rows[500], "state": "running", "started_s": 1e9, "reason": "", "host": "h"}
    lines = queue_lines([*rows, ROW], 2e9, None)
    assert [line.split()[0] for line in lines] == ["ID", "4_1..500", "4_501", "4_502..1000", "12"]


def test_a_table_fits_a_narrow_terminal() -> None:
    from warren.cli.service.listing import queue_lines

    row = {**ROW, "name": "n" * 50, "reason": "devices: " + "x" * 100}
    lines = queue_lines([row, ROW], 2e9, 80)
    assert max(map(len, lines)) <= 80
    assert "…" in lines[1]
    assert "…" not in lines[2]


def test_names_of_others_cannot_steer_the_terminal(
    warren: Warren, service: ScriptedService, script: Script
) -> None:
    script.answers["GET /v1/jobs"] = [{**ROW, "name": "\x1b[2J", "reason": "a\nb"}]
    found = warren("queue").out
    assert "\x1b" not in found
    assert found.count("\n") == 2


def test_show_prints_times_sizes_and_the_command_for_people(
    warren: Warren, service: ScriptedService, script: Script
) -> None:
    script.answers["GET /v1/jobs/12"] = (200, SHOWN)
    shown = dict(line.split("  ", 1) for line in warren("show", "12").out.splitlines())
    texts = {name: text.strip() for name, text in shown.items()}
    assert texts["command"] == "a 'b c'"
    assert texts["time limit"] == "4 h"
    assert texts["memory"] == "16 GB"
    assert texts["after"] == "7:any"
    assert texts["devices"] == "GPU-1, GPU-2"
    assert "environment" not in texts
    assert "share" not in texts
    assert warren("show", "12", "--json").json == SHOWN


def test_show_says_when_a_job_is_expected_to_start_and_how_often_that_held() -> None:
    from warren.cli.service.listing import show_lines
    from warren.cli.service.text import moment

    times = {"expected_start_s": 2e9, "expected_start_80_s": [1.9e9, 2.1e9],
             "expected_end_s": 3e9, "expected_end_80_s": [2.9e9, 3.1e9]}  # fmt: skip
    lines = show_lines({**SHOWN, **times, "starts_held": [158, 200]})
    texts = {name: text.strip() for name, text in (line.split("  ", 1) for line in lines)}
    assert texts["expected start"] == moment(2e9)
    assert texts["expected start 80"] == f"{moment(1.9e9)} to {moment(2.1e9)}"
    assert texts["expected end 80"] == f"{moment(2.9e9)} to {moment(3.1e9)}"
    assert texts["starts held"] == "158 of the last 200 80 % intervals"
    earlier = {name: value for name, value in SHOWN.items() if not name.startswith("expected_")}
    assert not [one for one in show_lines({**earlier, "expected_s": None}) if "expected" in one]


@pytest.mark.parametrize(("state", "code"), [("finished", 0), ("failed", 1), ("cancelled", 1)])
def test_wait_exits_by_how_the_job_ended(
    warren: Warren, service: ScriptedService, script: Script, state: str, code: int
) -> None:
    ended = {**SHOWN, "state": state, "reason": "exit code 3"}
    script.answers["GET /v1/jobs/12"] = (200, SHOWN)
    script.answers["GET /v1/jobs/12/wait"] = [
        (200, SHOWN),
        (200, ended),
        (200, SHOWN),
        (200, ended),
    ]
    found = warren("wait", "12")
    assert (found.code, found.out) == (code, "")
    assert found.err == ([] if code == 0 else [f"job 12 {state}: exit code 3"])
    again = warren("wait", "12", "--json")
    assert (again.code, again.json) == (code, ended)


def test_wait_for_an_array_waits_for_all_of_its_jobs(
    warren: Warren, service: ScriptedService, script: Script
) -> None:
    script.answers["GET /v1/jobs"] = (200, [{**ROW, "id": "4_1"}, {**ROW, "id": "4_2"}])
    script.answers["GET /v1/jobs/4_1/wait"] = (200, {**ENDED, "id": "4_1"})
    script.answers["GET /v1/jobs/4_2/wait"] = (200, {**ENDED, "id": "4_2", "state": "failed"})
    assert warren("wait", "4").err == ["job 4_2 failed: devices: needs 2"]
    script.answers["GET /v1/jobs"] = (200, [])
    assert warren("wait", "5").complaint == "there is no /v1/jobs/5"


def test_wait_goes_on_over_a_restart_of_the_service(
    warren: Warren, service: ScriptedService, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warren.serve.client.client.AGAIN_S", 0.0)
    script.answers["GET /v1/jobs/12"] = (200, SHOWN)
    script.answers["GET /v1/jobs/12/wait"] = [b"", b"", (200, ENDED)]
    found = warren("wait", "12")
    assert found.code == 0
    (line,) = found.err
    assert line.endswith("; waiting for the service")


def attempts(*ended: float | None) -> list[dict[str, Any]]:
    return [{"number": at, "started_s": 0.5, "ended_s": one} for at, one in enumerate(ended, 1)]


def test_logs_print_the_bytes_of_the_job(
    warren: Warren, service: ScriptedService, script: Script
) -> None:
    script.answers["GET /v1/jobs/12/log"] = chunked(b"one\n", b"two\n")
    assert warren("logs", "12").out == "one\ntwo\n"
    assert service.asked[-1].path == "/v1/jobs/12/log"
    script.answers["GET /v1/jobs/12/log"] = chunked(b"1\n2\n3\n")
    assert warren("logs", "12", "--tail", "2").out == "2\n3\n"
    assert service.asked[-1].path == "/v1/jobs/12/log?tail=65536"


def test_a_job_that_has_not_begun_says_why_it_has_no_output(
    warren: Warren, service: ScriptedService, script: Script
) -> None:
    script.answers["GET /v1/jobs/12/log"] = chunked()
    script.answers["GET /v1/jobs/12"] = (200, SHOWN)
    assert warren("logs", "12") == (0, "", ["job 12 is queued: devices: needs 2"])
    script.answers["GET /v1/jobs/12"] = (200, {**ENDED, "attempts": attempts(1.0)})
    assert warren("logs", "12") == (0, "", [])
    never = [{**one, "started_s": None} for one in attempts(1.0, 2.0)]
    failed = {**ENDED, "state": "failed", "reason": "could not be started: no x", "attempts": never}
    script.answers["GET /v1/jobs/12"] = (200, failed)
    for options in ((), ("--tail", "3"), ("--follow",)):
        assert warren("logs", "12", *options) == (
            0, "", ["job 12 failed: could not be started: no x"],
        )  # fmt: skip


def test_a_followed_log_goes_on_at_its_byte_after_a_restart_and_into_the_next_attempt(
    warren: Warren, service: ScriptedService, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warren.cli.service.following.AGAIN_S", 0.0)
    monkeypatch.setattr("warren.cli.service.following._PAUSE_S", 0.0)
    away = 409, {"error": "host a does not answer", "kind": "conflict"}
    states = [("running", None), ("running", None), ("running", None), ("queued", 1.0)]
    shown = [(200, {**SHOWN, "state": state, "attempts": attempts(end)}) for state, end in states]
    ended = 200, {**ENDED, "attempts": attempts(1.0, 2.0)}
    script.answers["GET /v1/jobs/12"] = [*shown, ended, ended]
    script.answers["GET /v1/jobs/12/log"] = [
        chunked(b"one\n")[:-7],
        away,
        chunked(b"two\n"),
        chunked(b"three\n"),
        chunked(b"four\n"),
    ]
    found = warren("logs", "-f", "12")
    assert (found.code, found.out) == (0, "one\ntwo\nthree\nfour\n")
    asked = [one.path.partition("?")[2] for one in service.asked if "/log" in one.path]
    assert asked == [
        "follow=1&attempt=1",
        "offset=4&follow=1&attempt=1",
        "offset=4&follow=1&attempt=1",
        "offset=8&follow=1&attempt=1",
        "follow=1&attempt=2",
    ]


def test_submit_and_wait_in_one_command(
    warren: Warren, service: ScriptedService, script: Script
) -> None:
    script.answers["POST /v1/jobs"] = 201, {"id": "12", "ids": ["12"]}
    script.answers["GET /v1/jobs/12/wait"] = (
        200,
        {**ENDED, "state": "failed", "reason": "exit code 3"},
    )
    found = warren("submit", "--wait", "--", "false")
    assert (found.code, found.out, found.err) == (1, "12\n", ["job 12 failed: exit code 3"])


def test_changes_are_asked_of_each_job(
    warren: Warren, service: ScriptedService, script: Script
) -> None:
    for verb in ("cancel", "preempt", "hold", "release"):
        for job in ("3", "n%2F1"):
            script.answers[f"POST /v1/jobs/{job}/{verb}"] = (200, {"ids": [job]})
        assert warren(verb, "3", "n/1") == (0, "", [])
        assert warren(verb, "3", "n/1", "--json").json == [{"ids": ["3"]}, {"ids": ["n%2F1"]}]
    script.answers["POST /v1/jobs/3/priority"] = (200, {"ids": ["3"]})
    for words in (("-5",), ("--", "-5"), ("-5", "--json"), ("--json", "--", "-5")):
        assert warren("priority", "3", *words).code == 0
        assert service.asked[-1].body == {"priority": -5}


def test_a_shell_needs_a_job_that_runs_on_this_machine(
    warren: Warren, service: ScriptedService, script: Script
) -> None:
    script.answers["GET /v1/jobs/12"] = (200, ENDED)
    assert warren("attach", "12").complaint == "job 12 is finished; attach needs a running job"
    running = {**SHOWN, "state": "running", "attempt": 1, "host": "h", "log": "h:12.1"}
    script.answers["GET /v1/jobs/12"] = (200, running)
    found = warren("attach", "12", "--home", "none")
    assert (found.code, found.complaint) == (2, "job 12 runs on h: type this there")


def device(index: int, kind: str, use: str = "free", **more: Any) -> dict[str, Any]:
    found = {"id": f"{kind}:{index}", "kind": kind, "type": "H100" if kind == "gpu" else "CPU",
             "use": use, "jobs": [], "memory_bytes": 80 * 10**9, "used_bytes": 0, "foreign": [],
             "drained": None}  # fmt: skip
    return {**found, **more}


def host(name: str, devices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    found = {"name": name, "connected": True, "reason": "", "drained": None, "processors": 4,
             "memory_bytes": 10**9, "limits": "cgroup", "version": "1",
             "devices": devices}  # fmt: skip
    return {**found, **more}


def test_top_shows_each_gpu_and_processors_together(
    warren: Warren, service: ScriptedService, script: Script
) -> None:
    job = {"id": "12", "name": "train", "user": "ana"}
    gpus = [
        device(0, "gpu", "jobs", jobs=[job], used_bytes=12 * 10**9),
        device(1, "gpu", "foreign", foreign=["python (4711) of bo"]),
    ]
    script.answers["GET /v1/hosts"] = [
        host("gpu1", gpus),
        host("cpu1", [device(at, "cpu") for at in range(4)]),
        host("gone", [], connected=False, reason="the network"),
    ]
    lines = warren("top").out.splitlines()
    assert lines[0].split() == ["HOST", "DEVICE", "TYPE", "MEMORY", "USE", "BY"]
    assert lines[1].split(None, 6)[:6] == ["gpu1", "0", "H100", "12", "GB", "of"]
    assert lines[1].endswith("jobs     12 train (ana)")
    assert lines[2].endswith("foreign  python (4711) of bo")
    assert lines[3].split() == ["cpu1", "4", "of", "them", "CPU", "free"]
    assert lines[4].split() == ["gone", "away", "the", "network"]


def test_a_device_is_drained_by_its_number(
    warren: Warren, service: ScriptedService, script: Script
) -> None:
    script.answers["GET /v1/hosts"] = [host("gpu1", [device(0, "gpu"), device(1, "gpu")])]
    script.answers["POST /v1/hosts/gpu1/drain"] = (200, {})
    script.answers["POST /v1/hosts/gpu1/undrain"] = (200, {})
    script.answers["DELETE /v1/hosts/gpu1"] = (200, [])
    assert warren("drain", "gpu1", "1", "--reason", "fan").code == 0
    assert service.asked[-1].body == {"device": "gpu:1", "reason": "fan"}
    assert warren("undrain", "gpu1").code == 0
    assert service.asked[-1].body == {"device": None}
    assert warren("drain", "gpu1", "2").complaint == "gpu1 has no device 2; it has 2"
    assert warren("drain", "gpu7", "2").complaint.startswith("there is no machine 'gpu7'")
    assert warren("drain", "gpu1", "--gone", "--json").json == []


def test_the_token_of_a_user_is_the_whole_answer(
    warren: Warren, service: ScriptedService, script: Script
) -> None:
    script.answers["PUT /v1/users/ana"] = (200, {"user": {"name": "ana"}, "token": "t-1"})
    found = warren("user", "add", "ana", "--group", "vision", "--admin", "--weight", "2")
    assert found.out == "t-1\n"
    assert "WARREN_TOKEN" in found.err[0]
    wanted = {"new_token": False, "role": "admin", "groups": ["vision"], "weight": 2}
    assert service.asked[-1].body == wanted


def test_quotas_name_users_groups_or_each(
    warren: Warren, service: ScriptedService, script: Script
) -> None:
    row = {"subject": "user:ana", "type": "gpu", "devices": 2}
    script.answers["PUT /v1/quotas"] = (200, [row])
    script.answers["GET /v1/quotas"] = (200, [row])
    assert warren("quota", "set", "ana", "gpu", "2").code == 0
    assert service.asked[-1].body == row
    for subject in ("group:vision", "each"):
        assert warren("quota", "remove", subject, "gpu").code == 0
        assert service.asked[-1].body == {"subject": subject, "type": "gpu", "devices": -1}
    assert warren("quota", "list").out.splitlines()[1].split() == ["user:ana", "gpu", "2"]


def test_show_says_how_a_job_comes_back_and_whether_it_saved(
    warren: Warren, service: ScriptedService, script: Script
) -> None:
    common = {"number": 1, "host": "h", "started_s": 1e9, "exit_code": 143, "cause": "preempt"}
    one = {**common, "reason": "preempted by ana", "saved": False, "save_s": None, "lost_s": 840.0}
    shown = {
        **SHOWN,
        "resume": {"template": "--from {latest}", "grace_s": 300.0},
        "attempts": [one],
    }
    script.answers["GET /v1/jobs/12"] = (200, shown)
    text = warren("show", "12").out
    assert "after SIGTERM, with 5 min to save; then with --from {latest}" in text
    assert "preempted by ana; not saved: 14 min lost" in text
    script.answers["GET /v1/jobs/12"] = (
        200, {**shown, "attempts": [{**one, "saved": True, "save_s": 12.3, "lost_s": None}]},
    )  # fmt: skip
    assert "preempted by ana; saved in 12 s" in warren("show", "12").out
