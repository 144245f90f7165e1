"""Commands of the service: how they are typed, what they send, and each mistake in one line."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_runs import Warren
from hypothesis import given
from hypothesis import strategies as st
from scripted_service import ScriptedService
from service_script import Script

from warren.cli.main import call
from warren.cli.service.as_typer import service_command
from warren.cli.service.declare import Command, CommandGroup
from warren.cli.service.lookup import declared
from warren.cli.service.names import ALL


def declarations() -> Iterator[tuple[str, Command]]:
    """All commands of the service, each by what is typed."""
    for name in ALL:
        found = declared(name)
        if isinstance(found, CommandGroup):
            yield from ((f"{name} {below}", one) for below, one in found.commands.items())
        else:
            yield name, found


COMMANDS = dict(declarations())


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_a_keyword_for_each_part_of_its_declaration(name: str) -> None:
    command = COMMANDS[name]
    code = command.run.__code__
    keywords = set(code.co_varnames[: code.co_kwonlyargcount])
    parts = {part.name for part in (*command.options, *command.arguments)}
    # ``submit`` takes its many needs as one mapping.
    assert keywords <= parts if name == "submit" else keywords == parts


@pytest.mark.parametrize("name", ALL)
def test_the_line_of_help_is_that_of_the_command(name: str) -> None:
    found = declared(name)
    text = found.help if isinstance(found, CommandGroup) else found.run.__doc__
    assert text
    assert text.partition("\n")[0] == ALL[name][1]


@pytest.mark.parametrize("name", [*ALL, *COMMANDS])
def test_help_has_an_example_that_is_read_as_it_stands(warren: Warren, name: str) -> None:
    found = warren(*name.split(), "--help")
    assert (found.code, found.err) == (0, [])
    examples = re.findall(r"^  (?:watch )?warren (.*)", found.out.split("Example")[1], re.MULTILINE)
    assert examples
    for example in examples:
        line = shlex.split(re.split(r" > | && ", example)[0])
        words = 2 if " ".join(line[:2]) in COMMANDS else 1
        assert COMMANDS[" ".join(line[:words])].read(line[words:]) is not None, example


VALUES = ["1", "2", "4h", "1GB", "x", "a=1,2", "1-3", "12:any", "-1", "", "queued", "a.yaml"]


def lines_of(command: Command) -> st.SearchStrategy[list[str]]:
    """Command lines that a person may type, right and wrong ones."""
    flags = [flag for option in command.options for flag in option.flags]
    words = [*flags, *(f"{flag}=1" for flag in flags), *VALUES, "--", "--nothing", "-z", "-"]
    return st.lists(st.sampled_from(words), max_size=6)


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_read_without_typer_has_the_values_that_typer_reads(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = COMMANDS[name]
    seen: list[dict[str, Any]] = []

    def keep(**values: Any) -> None:
        seen.append(values)

    keep.__kwdefaults__ = command.run.__kwdefaults__
    keep.__doc__ = command.run.__doc__
    monkeypatch.setattr(command, "run", keep)
    slow = service_command(name.split()[0])
    group = name.split()[1:]

    @given(lines_of(command))
    def agree(line: list[str]) -> None:
        seen.clear()
        quick = command.read(line)
        if quick is None:
            return
        with slow.make_context(name, [*group, *line]) as context:
            slow.invoke(context)
        assert seen == [quick]

    agree()


def test_a_plain_request_is_not_read_by_typer(
    warren: Warren, service: ScriptedService, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.answers["POST /v1/jobs"] = 201, {"id": "3", "ids": ["3"]}
    monkeypatch.setattr("warren.cli.main._by_library", None)
    assert warren("submit", "--gpus", "2", "--time=4h", "--", "a", "--x").out == "3\n"
    assert service.asked[0].body["spec"]["command"] == ["a", "--x"]


def spec_of(service: ScriptedService, *hidden: str) -> dict[str, Any]:
    """What was submitted last, without what every submission has."""
    spec: dict[str, Any] = dict(service.asked[-1].body["spec"])
    for name in ("environment", "folder", *hidden):
        del spec[name]
    return spec


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("-- train -x", {"command": ["train", "-x"]}),
        ("train --time 3", {"command": ["train", "--time", "3"]}),
        ("--gpus 2 -- a", {"command": ["a"], "devices": 2, "device_type": "gpu"}),
        ("--gpus 2 --type H100 a", {"command": ["a"], "devices": 2, "device_type": "H100"}),
        ("--devices 4 --share a", {"command": ["a"], "devices": 4, "share": True}),
        ("--time 1d12h --grace 30s a", {"command": ["a"], "time_limit_s": 129600, "grace_s": 30}),
        ("--memory 16GB --host h a", {"command": ["a"], "memory_bytes": 16 * 10**9, "host": "h"}),
        ("--after 3 --after p:any a", {"command": ["a"], "after": [
            {"job": "3", "when": "ok"}, {"job": "p", "when": "any"}]}),
        ("--priority -5 --retries 2 a", {"command": ["a"], "priority": -5, "retries": 2}),
        ("--resume= a", {"command": ["a"], "resume": {"template": ""}}),
        ("--resume --resume a", {"command": ["a"], "resume": {"template": "--resume"}}),
        ("--resume --from={latest} --save-time 5min a", {"command": ["a"], "resume": {
            "template": "--from={latest}", "grace_s": 300}}),
        ("--compat slurm --signal sigusr1 --checkpoints /nfs/./c --certificate exact a", {
            "command": ["a"], "resume": {"compat": "slurm", "signal": "USR1",
                                         "checkpoints": "/nfs/c", "certificate": "exact"}}),
        ("--hold --key k --name n a", {"command": ["a"], "held": True, "key": "k", "name": "n"}),
    ],
)  # fmt: skip
def test_options_of_submit_become_fields(
    warren: Warren, service: ScriptedService, script: Script, line: str, wanted: dict[str, Any]
) -> None:
    script.answers["POST /v1/jobs"] = 201, {"id": "3", "ids": ["3"]}
    found = warren("submit", *line.split())
    assert (found.code, found.out, found.err) == (0, "3\n", [])
    assert spec_of(service) == wanted


def test_arrays_sweeps_folder_and_variables_are_sent(
    warren: Warren, service: ScriptedService, script: Script, tmp_path: Path
) -> None:
    script.answers["POST /v1/jobs"] = 201, {"id": "3", "ids": ["3_1", "3_2"]}
    found = warren("submit", "--array", "1-2", "--json", "--", "a")
    assert found.json == {"id": "3", "ids": ["3_1", "3_2"]}
    assert service.asked[-1].body["array"] == [1, 2]
    warren("submit", "--sweep", "lr=1,2", "--sweep", "b=x", "--folder", tmp_path, "--env", "A=b",
           "--", "{lr}", "{b}")  # fmt: skip
    body = service.asked[-1].body
    assert body["sweep"] == {"lr": ["1", "2"], "b": ["x"]}
    assert body["spec"]["folder"] == str(tmp_path)
    assert body["spec"]["environment"]["A"] == "b"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("submit", ["submit: -- COMMAND|JOB.yaml|RUN.yaml is missing"]),
        ("submit --time 10 -- a", ["submit: --time: '10' is no time; write it like 30m"]),
        ("submit --memory 9 -- a", ["submit: --memory: ", "write it like 16GB"]),
        ("submit --gpus 0 -- a", ["submit: --gpus: must be at least 1, got '0'"]),
        ("submit --array 5 -- a", ["submit: --array: ", "like 1-10"]),
        ("submit --sweep lr -- a", ["submit: --sweep: ", "like lr=0.1,0.01"]),
        ("submit --sweep a=1 --sweep a=2 -- a", ["--sweep: a name is given twice"]),
        ("submit --gpus 1 --devices 1 -- a", ["--devices and --gpus both say how many"]),
        ("submit --signal KILL -- a", ["--signal: 'KILL' is unknown; allowed: TERM, INT"]),
        ("submit --compat sge -- a", ["--compat: 'sge' is unknown; allowed: slurm"]),
        ("submit --certificate good -- a", ["--certificate: 'good' is unknown; allowed: exact"]),
        ("submit --resume --time 4h -- a", ["--resume: --time is an option of submit; write"]),
        ("submit --tim 4h -- a", ["no option --tim; did you mean --time?"]),
        ("submit job.yaml a", ["job.yaml: only options may stand behind a job file"]),
        ("submit none.yaml", ["none.yaml: no such file"]),
        ("queue --state waiting", ["--state: unknown state 'waiting'; allowed: queued, held"]),
        ("queue x", ["unexpected extra argument", "(x)"]),
        ("cancel", ["cancel: ID... is missing"]),
        ("priority 3 high", ["priority: N: expected a whole number, got 'high'"]),
        ("priority 3 -5 --bogus", ["no option --bogus"]),
        ("drain gpu1 --gone --reason x", ["--gone takes a machine alone"]),
        ("quota set ana gpu -- -1", ["quota set: N: must be at least 0, got '-1'"]),
        ("user add ana --weight 0", ["user add: --weight: expected a number above 0"]),
        ("serve --listen 80", ["serve: --listen: '80' is no address"]),
        ("serve --order fifo", ["serve: --order: unknown order 'fifo'; allowed: strict, backfill"]),
        ("serve --user", ["--user is about --print-unit"]),
        ("serve --place hare", ["--place: hare cannot order commands: it must know all jobs"]),
        ("serve --place gitins", ["--place: unknown policy 'gitins'; did you mean gittins?"]),
        ("serve --min-run 5m", ["serve: --min-run is about --preempt"]),
        ("serve --preempt --min-run 5", ["serve: --min-run: '5' is no time"]),
        ("serve --preempt --preempt-limit 0", ["serve: --preempt-limit: must be at least 1"]),
    ],
)
def test_a_mistake_is_one_line_and_asks_nothing(
    warren: Warren, service: ScriptedService, line: str, said: list[str],
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    found = warren(*line.split())
    assert (found.code, found.out) == (2, "")
    assert all(part in found.complaint for part in said)
    assert service.asked == []


def test_without_a_service_one_line_says_how_to_start_it(
    warren: Warren, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WARREN_SERVER", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    found = warren("queue")
    assert found.code == 2
    assert found.complaint == (
        "no service at ~/.warren/serve/socket: start one with `warren serve`, or name one by "
        "WARREN_SERVER"
    )
    (tmp_path / "gone").touch()
    found = warren("cancel", "3", "--server", tmp_path / "gone")
    assert (found.code, found.complaint) == (
        2, f"no service at {tmp_path}/gone: it has ended; start it with `warren serve`"
    )  # fmt: skip


def test_a_refusal_of_the_service_is_its_line(
    warren: Warren, service: ScriptedService, script: Script
) -> None:
    script.answers["POST /v1/jobs/3/cancel"] = 403, {"error": "job 3 is bo's", "kind": "forbidden"}
    found = warren("cancel", "3")
    assert (found.code, found.out, found.complaint) == (2, "", "job 3 is bo's")


def test_a_refusal_of_a_job_file_names_the_file(
    warren: Warren, service: ScriptedService, script: Script, tmp_path: Path
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("command: a\nhost: h9\n")
    script.answers["POST /v1/jobs"] = 400, {"error": "host 'h9' is unknown", "kind": "never"}
    assert warren("submit", path).complaint == f"{path}: host 'h9' is unknown"
    assert warren("submit", "--", "a").complaint == "host 'h9' is unknown"


def test_a_request_without_a_token_says_where_one_goes(
    warren: Warren, service: ScriptedService, script: Script
) -> None:
    script.answers["GET /v1/hosts"] = (
        401,
        {"error": "this needs a token", "kind": "unauthenticated"},
    )
    assert "WARREN_TOKEN" in warren("top").complaint


JOB_FILE = """\
command: [torchrun, train.py, --lr, '{lr}']
gpus: 2
time: 4h
after: [base, 12:any]
sweep: {lr: [0.1, 0.01]}
env: {A: 1}
hold: true
"""


def test_a_job_file_has_the_fields_of_the_options_and_options_come_first(
    warren: Warren, service: ScriptedService, script: Script, tmp_path: Path
) -> None:
    script.answers["POST /v1/jobs"] = 201, {"id": "3", "ids": ["3_0", "3_1"]}
    path = tmp_path / "job.yaml"
    path.write_text(JOB_FILE)
    assert warren("submit", path, "--time", "1h", "--json").code == 0
    body = service.asked[-1].body
    assert body["sweep"] == {"lr": ["0.1", "0.01"]}
    assert body["spec"]["environment"]["A"] == "1"
    assert spec_of(service) == {
        "command": ["torchrun", "train.py", "--lr", "{lr}"], "devices": 2, "device_type": "gpu",
        "time_limit_s": 3600, "held": True,
        "after": [{"job": "base", "when": "ok"}, {"job": "12", "when": "any"}],
    }  # fmt: skip
    path.write_text("command: |\n  cd x\n  make | tee log\n")
    assert warren("submit", "--gpus", "1", path).code == 0
    assert spec_of(service)["command"] == ["sh", "-c", "cd x\nmake | tee log\n"]


@pytest.mark.parametrize("by_library", [False, True])
def test_a_job_has_the_variables_of_the_shell_and_no_others(
    warren: Warren,
    service: ScriptedService,
    script: Script,
    monkeypatch: pytest.MonkeyPatch,
    by_library: bool,
) -> None:
    script.answers["POST /v1/jobs"] = 201, {"id": "3", "ids": ["3"]}
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    if by_library:
        monkeypatch.setattr("warren.cli.service.lookup.quickly", lambda _: None)
    before = dict(os.environ)
    assert warren("submit", "--", "true").code == 0
    assert service.asked[-1].body["spec"]["environment"] == before


def test_a_run_file_becomes_the_command_that_trains_it_on_the_devices_of_the_job(
    warren: Warren, service: ScriptedService, script: Script, tmp_path: Path
) -> None:
    script.answers["POST /v1/jobs"] = 201, {"id": "3", "ids": ["3"]}
    path = tmp_path / "run.yaml"
    path.write_text("format: 1\nworkload: jobs.yaml\n")
    assert warren("submit", path, "--devices", "2", "--retries", "3").code == 0
    assert spec_of(service) == {
        "command": [sys.executable, "-P", "-m", "warren.serve.app_run", str(path)],
        "devices": 2,
        "retries": 3,
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("command: a\ntimes: 4h\n", "2: times: unknown field; did you mean time? allowed: command"),
        ("command: a\ntime: 4\n", "2: time: '4' is no time"),
        ("command: a\nhold: 1\n", "2: hold: expected true or false, got 1"),
        ("command: a\nsweep: [1]\n", "2: sweep: expected names with values"),
        ("command: a\ngpus: [1]\n", "2: gpus: expected one value"),
        ("command: {}\n", "1: command: expected a line for the shell, or a list of words"),
        ("gpus: 1\n", " `command:` is missing"),
        ("- a\n", " expected fields, such as `command:`"),
        ("command: [\n", "2: is no YAML"),
        ("", " expected fields"),
    ],
)
def test_a_fault_of_a_job_file_names_file_line_and_field(
    warren: Warren, service: ScriptedService, tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    found = warren("submit", path)
    assert found.code == 2
    assert found.complaint.startswith(f"{path}:{said}")
    assert service.asked == []


def test_the_schema_of_a_job_file_has_each_field(warren: Warren) -> None:
    fields = warren("schema", "submit", "--json").json["properties"]
    options = declared("submit")
    assert isinstance(options, Command)
    flags = [option.flags[0].lstrip("-") for option in options.options]
    assert list(fields) == [
        "command",
        *(one for one in flags if one not in ("wait", "server", "json")),
    ]
    assert all(one["description"] for one in fields.values())


def test_without_the_extra_the_service_says_how_to_get_it(
    warren: Warren, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("warren.live.extras.requires", lambda _: ['fastapi; extra == "serve"'])
    monkeypatch.setattr(
        "warren.live.extras.find_spec", lambda name: None if name == "fastapi" else 1
    )
    found = warren("serve", "--home", tmp_path / "home")
    assert found.code == 2
    assert re.match(r"FastAPI is not installed; run: .* -m pip install fastapi", found.complaint)
    assert not (tmp_path / "home").exists()


def test_the_unit_keeps_jobs_over_a_stop_and_names_this_installation(
    warren: Warren, tmp_path: Path
) -> None:
    folder = tmp_path / "50 % of $x"
    found = warren("serve", "--print-unit", "--home", folder, "--listen", "0.0.0.0:8443")
    assert (
        f'ExecStart={sys.executable} -P -m warren serve --home "{tmp_path}/50 %% of $$x"'
        in found.out
    )
    assert "--listen 0.0.0.0:8443" in found.out
    assert "\nKillMode=process\n" in found.out
    assert "WantedBy=multi-user.target" in found.out
    assert "WantedBy=default.target" in warren("serve", "--print-unit", "--user").out
    line = ("serve", "--print-unit", "--place", "srtf", "--preempt", "--min-run", "20m")
    assert " --place srtf --min-run 1200s --preempt\n" in warren(*line).out


@pytest.mark.parametrize("user", [(), ("--user",)])
@pytest.mark.parametrize("kind", ["serve", "agent"])
def test_systemd_finds_no_fault_in_the_units(
    warren: Warren, tmp_path: Path, kind: str, user: tuple[str, ...]
) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    more = ("--connect", f"gpu1:8444#sha256={'0' * 64}") if kind == "agent" else ()
    unit = tmp_path / "warren.service"
    home = tmp_path / "50 % of $x"
    unit.write_text(warren(kind, "--print-unit", "--home", home, *more, *user).out)
    words = ["systemd-analyze", *user, "verify", "--man=no", str(unit)]
    # A user's systemd asks for the folder of its sockets.
    env = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run(words, capture_output=True, text=True, env=env)
    assert (done.returncode, done.stderr) == (0, "")


def test_ctrl_c_ends_a_request_with_one_line(
    service: ScriptedService, script: Script, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("warren.serve.client.client.Client.ask_text", interrupted)
    assert call(["queue"]) == 130
    assert capsys.readouterr().err == "warren: interrupted\n"
