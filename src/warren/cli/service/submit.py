"""``warren submit``: a command, an array, a sweep or a job file goes to the service."""

from __future__ import annotations

import sys

from warren.cli.service.declare import JSON, SERVER, Argument, Option, command, is_job_file
from warren.cli.service.needs import NEEDS
from warren.serve.client.address import refused
from warren.serve.client.client import Client
from warren.serve.client.submission import submission

TYPE_CHECKING = False  # not from typing, which takes long to load

if TYPE_CHECKING:
    from typing import Any, Final


@command(
    Argument(
        "words",
        "-- COMMAND|JOB.yaml|RUN.yaml",
        "Command and its arguments, a job file, or a run file.",
        many=True,
    ),
    *NEEDS,
    Option("--wait", "Wait for the end; exit with 1 unless the job finished."),
    SERVER,
    JSON,
    examples=(
        "warren submit -- python train.py --lr 3e-4",
        "warren submit --gpus 2 --time 4h --name base -- torchrun train.py",
        "warren submit --after base -- python evaluate.py",
        "warren submit --array 1-10 -- python train.py --seed {index}",
        "warren submit --sweep lr=0.1,0.01 -- python train.py --lr {lr}",
        "warren submit --resume '--resume_from_checkpoint {latest}' -- python train.py",
        "warren submit job.yaml --priority 5",
        "warren submit examples/porting/run.yaml --devices 2 --retries 3",
    ),
    words=True,
)
def submit(
    *, words: tuple[str, ...], wait: bool, server: str | None, json_: bool, **needs: Any
) -> int | None:
    """Submit a command to the service.

    The job runs in the current folder, with the variables of this shell except WARREN_TOKEN. It
    holds its devices from start to end. A run file is trained on them as by `warren run`; started
    again, it goes on from its checkpoints. Prints the id of the job, or of the array.
    """
    body = _body(words, needs)
    with Client(server) as service:
        answer = _submitted(service, body, words[0] if is_job_file(words[0]) else None)
        if json_:
            import json

            print(json.dumps(answer), flush=True)
        else:
            print(answer["id"], flush=True)
            _explain(answer, body)
        return _ended(service, answer) if wait else None


def _body(words: tuple[str, ...], needs: dict[str, Any]) -> dict[str, Any]:
    """Return what is sent: the fields of a job file, and over them the options."""
    if is_job_file(words[0]):
        if len(words) > 1:
            raise refused(f"{words[0]}: only options may stand behind a job file", "wrong")
        from warren.cli.service.job_file import read_job_file

        command, fields = read_job_file(words[0])
        given = {name: value for name, value in needs.items() if not _is_default(value)}
        needs = {**needs, **fields, **given}
        return _sent(command, needs)
    return _sent(words, needs)


def _submitted(service: Client, body: dict[str, Any], file: str | None) -> dict[str, Any]:
    """Return the answer to a submission; a refusal of a job file names the file."""
    from warren.serve.client.errors import ServiceError

    try:
        answer: dict[str, Any] = service.ask("POST", "/v1/jobs", body)
    except ServiceError as error:
        if file is None or error.kind not in ("wrong", "never", "unknown"):
            raise
        raise refused(f"{file}: {error}", error.kind) from error
    return answer


def _is_default(value: object) -> bool:
    """Tell whether an option was not given; 0 is a value."""
    return value is None or value is False or value == ()


def _sent(words: tuple[str, ...], needs: dict[str, Any]) -> dict[str, Any]:
    """Return a submission of a command and the options."""
    import os

    gpus, sweep, env = needs.pop("gpus"), needs.pop("sweep"), needs.pop("env")
    if gpus is not None:
        if needs["devices"] is not None:
            raise refused("submit: --devices and --gpus both say how many; leave one out", "wrong")
        needs["devices"] = gpus
        needs["device_type"] = needs["device_type"] or "gpu"
    resume = _resume(needs)
    names = [name for name, _ in sweep]
    if len(set(names)) < len(names):
        raise refused("submit: --sweep: a name is given twice; list all its values in one", "wrong")
    environment = {**os.environ, **dict(env)}
    return submission(words, environment=environment, sweep=dict(sweep), resume=resume, **needs)


_RESUME: Final = {
    "resume": "template",
    "signal": "signal",
    "save_time_s": "grace_s",
    "checkpoints": "checkpoints",
    "compat": "compat",
    "certificate": "certificate",
}
"""Options of a command that can come back, each with its field."""


def _resume(needs: dict[str, Any]) -> dict[str, Any] | None:
    """Take these options out; return how the command comes back, None if none is given."""
    import os

    given = {field: needs.pop(option) for option, field in _RESUME.items()}
    found = {field: value for field, value in given.items() if value is not None}
    if "checkpoints" in found:
        found["checkpoints"] = os.path.abspath(found["checkpoints"])
    return found or None


def _explain(answer: dict[str, Any], body: dict[str, Any]) -> None:
    """Say on a terminal what to type next; scripts have the id alone."""
    if not sys.stderr.isatty():
        return
    job, ids = answer["id"], answer.get("ids") or [answer["id"]]
    held = " (held; `warren release` lets it start)" if body["spec"].get("held") else ""
    if len(ids) > 1:
        print(f"{len(ids)} jobs are submitted{held}; `warren queue` lists them", file=sys.stderr)
    else:
        print(f"submitted{held}; `warren logs -f {job}` follows its output", file=sys.stderr)


def _ended(service: Client, answer: dict[str, Any]) -> int:
    """Wait for all jobs of a submission, and return the exit code."""
    from warren.cli.service.following import wait_for

    return wait_for(service, answer.get("ids") or [answer["id"]])
