"""Help, wrong usage and exit codes."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from cli_runs import CHECKOUT, QUICKSTART, Warren

pytestmark = pytest.mark.slow

COMMANDS = ("simulate", "run", "compare", "report", "check", "policies", "schema", "predict",
            "group", "reproduce", "trace", "profile", "testbed")  # fmt: skip
PARTS = ("trace inspect", "trace convert", "profile measure", "profile list", "profile show",
         "profile forget", "profile export", "testbed up", "testbed exec", "testbed status",
         "testbed down")  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("simulat x", ["'simulat'", *COMMANDS]),
        ("--foo", ["--foo", "--version", "--help"]),
        ("simulate", ["simulate: RUN.yaml|SERVICE is missing"]),
        ("run", ["run: RUN.yaml is missing; allowed: RUN.yaml, or --resume DIR"]),
        ("run x --resume d --out o --place p", ["--resume", "out RUN.yaml, --place, --out"]),
        ("run --resume d --set a=b --dry-run", ["--resume", "leave out --set, --dry-run"]),
        ("simulate x --foo", ["--foo", "--place", "--dry-run", "--json", "--help"]),
        ("simulate x --out", ["--out"]),
        ("simulate x --json=3", ["--json"]),
        ("simulate x y", ["unexpected extra argument", "(y)", "RUN.yaml"]),
        ("compare", ["RUN.yaml|DIR|SERVICE... is missing"]),
        ("compare x --seeds 0", ["--seeds: must be at least 1, got '0'"]),
        ("compare x --seeds many", ["--seeds: expected a whole number, got 'many'"]),
        ("group x --at noon", ["--at: expected a number, got 'noon'"]),
        ("simulate x --sed 3", ["no option --sed; did you mean --seed?"]),
        ("simulat x", ["no command 'simulat'; did you mean simulate?"]),
        ("run --resume d --seed 0", ["leave out --seed"]),
        ("schema", ["job|cluster|run|testbed|submit is missing"]),
        ("schema foo", ["'foo'", "job, cluster, run, testbed, submit"]),
        ("policies foo", ["'foo'", "gavel-fifo, gittins, hare"]),
        ("policies foo.py:Bar", ["foo.py:Bar", "no such file"]),
        ("report", ["DIR|SERVICE is missing"]),
        ("check", ["FILE is missing"]),
        ("predict", ["CURVE.csv is missing"]),
    ],
)
def test_wrong_usage_is_one_line_that_names_what_is_allowed(
    warren: Warren, arguments: str, told: list[str]
) -> None:
    found = warren(*arguments.split())
    assert (found.code, found.out) == (2, "")
    assert all(part in found.complaint for part in told)


def test_what_an_option_is_given_wrongly_is_reported_with_an_example(
    warren: Warren, tiny: str
) -> None:
    assert "not KEY=VALUE, for example" in warren("simulate", tiny, "--set", "x").complaint
    assert "allowed: " in warren("simulate", tiny, "--set", "colour=red").complaint
    assert "gavel-fifo" in warren("simulate", tiny, "--place", "best").complaint
    assert "empty name" in warren("compare", tiny, "--place", "srtf,,hare").complaint


@pytest.mark.parametrize("command", COMMANDS)
def test_files_that_are_not_there_are_named(warren: Warren, tmp_path: Path, command: str) -> None:
    if command in ("policies", "reproduce", "schema", "trace", "testbed"):
        return
    for path in (tmp_path / "none", tmp_path):
        found = warren(command, path)
        assert found.code == 2
        assert str(path) in found.complaint


def test_without_a_command_the_help_is_shown(warren: Warren) -> None:
    found = warren()
    assert found.code == 0
    assert found.err == []
    assert found == warren("--help")
    assert all(f"\n  {command} " in found.out for command in COMMANDS)


@pytest.mark.parametrize("command", ["", *COMMANDS, *PARTS])
def test_help_is_whole_fits_and_has_an_example(warren: Warren, command: str) -> None:
    found = warren(*command.split(), "--help")
    assert (found.code, found.err) == (0, [])
    assert not re.search(
        r"\w\.\.\.(\s|$)", found.out.replace("[ARGS]...", "").replace("SERVICE...", "")
    )
    assert f"warren {command}".strip() in found.out.split("Example")[1]


def test_every_example_of_the_help_works(
    warren: Warren, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "examples").symlink_to(CHECKOUT / "examples")
    monkeypatch.chdir(tmp_path)
    assert warren("simulate", QUICKSTART, "--out", "sim-hare").code == 0
    assert warren("simulate", QUICKSTART, "--out", "live-hare").code == 0
    tried = 0
    for command in ("", *COMMANDS, *PARTS):
        text = warren(*command.split(), "--help").out.split("Example")[1]
        for example in re.findall(r"^  warren (.*)", text, re.MULTILINE):
            arguments = shlex.split(example.partition(" > ")[0])
            if arguments[0] == "check":
                continue  # starts processes; tests/cli/test_cli_live.py tries it
            if arguments[0] == "profile" and arguments[1] not in ("list", "export"):
                continue  # tests/cli/test_cli_live_profile.py and test_cli_profile.py try these
            if arguments[0] == "reproduce":
                continue  # needs the checkout; tests/cli/test_cli_reproduce.py tries it
            if "--since" in arguments:
                continue  # needs a service; tests/cli/test_cli_replay.py tries these
            if arguments[0] == "testbed":
                continue  # needs rights; tests/cli/test_cli_testbed.py tries these
            if "--resume" in arguments:
                continue  # tests/cli/test_cli_live_resume.py tries it
            if arguments[0] == "run":
                arguments = [*arguments, "--dry-run", "--out", "not-there"]
            assert warren(*arguments).code == 0, example
            tried += 1
    assert tried >= 14


def test_help_imports_nothing_heavy() -> None:
    heavy = ("numpy", "pydantic", "pyarrow", "torch", "numba", "scipy", "yaml", "rich", "zmq")
    code = (
        "import sys; from warren.cli.main import call; call(['--help']); "
        f"print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_the_installed_command_gives_its_exit_code() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "warren", "simulat"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr.startswith("warren: no command 'simulat'; did you mean simulate? allowed: ")
    assert done.stderr.count("\n") == 1


def test_nobody_reading_the_answer_is_no_error_worth_a_traceback() -> None:
    one = f"{sys.executable} -m warren"
    command = f"{one} policies | true; {one} schema run >/dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.returncode == 2
    assert [line for line in done.stderr.splitlines() if not line.startswith("warren: ")] == []


@pytest.mark.parametrize("command", ["simulate", "run"])
def test_a_seed_is_an_option_as_people_expect(warren: Warren, tiny: str, command: str) -> None:
    by_option = warren(command, tiny, "--dry-run", "--seed", "7")
    by_field = warren(command, tiny, "--dry-run", "--set", "seed=7")
    assert by_option == by_field
    assert by_option != warren(command, tiny, "--dry-run", "--seed", "8")
