"""``warren flow``: wrong options start nothing, and ``--dry-run`` needs no rights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_runs import Warren

LOG = "watch --log a.log"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("watch --port 1", "flow watch: --log is missing"),
        (LOG, "flow: --port: is missing; allowed: --port, --address or --pid, once a log"),
        (f"{LOG} --port 1 --port 2", "flow: --port: 2 for 1 logs; allowed: one for each"),
        (f"{LOG} --port x", "flow: port: 'x' is no port; allowed: like 29500"),
        (f"{LOG} --port 70000", "flow: port: 70000-70000; allowed: 1 to 65535"),
        (f"{LOG} --address eth0", "flow: address: 'eth0' is not an address"),
        (f"{LOG} --pid 0", "flow: --pid: 0 is no process"),
        (f"{LOG} --pid 1 --port 1", "flow: --pid: tells the flows already"),
        (f"{LOG} --log b/a.log --port 1 --port 2", "flow: --log: two logs have the same name"),
        (f"{LOG} --port 1 --period 0", "flow: --period: 0; allowed: 0.1 to 86400 seconds"),
        (f"{LOG} --port 1 --periods 0", "flow: --periods: 0; allowed: 1 and more"),
        (f"{LOG} --port 1 --pattern (", "flow: --pattern: is no regular expression"),
        (f"{LOG} --port 1 --pattern acc", "flow: --pattern: needs a group (?P<value>...)"),
        (f"{LOG} --port 1 --cuts soon", "flow: --cuts: 'soon' is neither steps, such as 100,150,"),
        (f"{LOG} --port 1 --cuts 1,nan", "flow: --cuts: '1,nan' is neither steps"),
        (f"{LOG} --port 1 --rate 1Gbit", "flow: --rate: is that of a --device, which is missing"),
        (f"{LOG} --port 1 --device e", "flow: --rate: is missing: htb needs"),
        (f"{LOG} --port 1 --device e --rate fast", "flow: --rate: "),
        (f"{LOG} --port 1 --device e;f --rate 1Gbit", "flow: device: 'e;f' is not an interface"),
        (f"{LOG} --port 1 --device e --rate 1Gbit --queues cake", "flow: queues: 'cake' is not"),
        (
            f"{LOG} --port 1 --code-points 1,2",
            "flow: --code-points: '1,2'; allowed: testbed, switch",
        ),
        (f"{LOG} --port 1 --label A", "flow: label: 'A' is not a name"),
        ("status --label ../x", "flow: label: '../x' is not a name"),
        ("clear --label -x", "flow: label: '-x' is not a name"),
        ("nccl --class 8", "flow: --class: 8 is no class; allowed: 0 to 7"),
        ("stop", "no command 'stop'; allowed: watch, coordinator, agent, status"),
    ],
)
def test_what_is_typed_wrongly_is_reported_in_one_line_and_starts_nothing(
    warren: Warren, monkeypatch: pytest.MonkeyPatch, arguments: str, told: str
) -> None:
    def started(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr("warren.live.enforcement.client.subprocess.Popen", started)
    found = warren("flow", *arguments.split())
    assert (found.code, found.out) == (2, "")
    assert told in found.complaint


def test_a_dry_run_prints_rules_and_starts_nothing(
    warren: Warren, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("warren.live.enforcement.client.subprocess.Popen", None)
    log = tmp_path / "Run 1.log"
    log.write_text("step 1 acc 0.5\n")
    arguments = ["flow", "watch", "--log", str(log), "--port", "29500", "--dry-run"]
    found = warren(*arguments, "--device", "eth9", "--rate", "1Gbit")
    assert found.code == 0
    assert "qdisc add dev eth9 root handle 5741: htb default 1" in found.out
    assert "add chain inet warren_flows_jobs job_run-1 {" in found.out
    told = json.loads(warren(*arguments, "--json").out)
    assert [(row["job"], row["class"], row["step"]) for row in told["jobs"]] == [("run-1", 0, 1.0)]
    assert warren("flow", "nccl", "--class", "2").out == "NCCL_IB_TC=192\n"
    # On a switch the first class is marked, too.
    on_switch = ["--code-points", "switch"]
    assert 'ip dscp set 56 comment "class 0"' in warren(*arguments, *on_switch).out
    assert warren("flow", "nccl", "--class", "2", *on_switch).out == "NCCL_IB_TC=160\n"
