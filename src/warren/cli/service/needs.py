"""What a job may need: options of ``warren submit``, fields of a job file."""

from __future__ import annotations

from warren.cli.service.declare import Option
from warren.serve.client import values

TYPE_CHECKING = False  # not from typing, which takes long to load

if TYPE_CHECKING:
    from typing import Final


def _words(text: str) -> str:
    """Return words for a command; an option of submit by itself was not meant as one.

    Raises
    ------
    ValueError
        If it is the name of another option of submit.
    """
    if text != "--resume" and any(text in one.flags for one in NEEDS):
        raise ValueError(f"{text} is an option of submit; write --resume '' before it")
    return text


NEEDS: Final = (
    Option("--devices", "Devices to hold from start to end, all on one machine. Default: 1.", "N",
           values.positive),
    Option("--gpus", "The same number of GPUs: devices of other kinds do not count.", "N",
           values.positive),
    Option("--type", "Type of device, such as H100.", "TYPE", str, name="device_type"),
    Option("--share", "Let other jobs that share have the same devices at the same time."),
    Option("--host", "Machine to run on. Default: any.", "HOST", str),
    Option("--time", "Longest running time, such as 30m, 4h or 1d12h. Default: no limit.", "TIME",
           values.seconds, name="time_limit_s"),
    Option("--memory", "Most memory, such as 16GB. Default: no limit.", "SIZE", values.size,
           name="memory_bytes"),
    Option("--name", "Name of the job; other jobs may wait for it by this name.", "NAME", str),
    Option("--after", "Wait until this job, by id or name, has finished; with :any behind it, "
           "until it has ended in any way. Repeatable.", "JOB[:any]", values.dependency,
           many=True),
    Option("--array", "Submit a job for each index; {index} in the command becomes the index.",
           "FIRST-LAST", values.span),
    Option("--sweep", "Submit a job for each value; {KEY} in the command becomes the value. "
           "Given twice, there is a job for each combination.", "KEY=V1,V2", values.axis,
           many=True),
    Option("--priority", "Jobs of higher priority start first. Default: 0.", "N", values.whole),
    Option("--retries", "How often to start the job again after it failed. Default: 0.", "N",
           values.counted),
    Option("--grace", "Time between SIGTERM and SIGKILL. Default: 10s.", "TIME", values.seconds,
           name="grace_s"),
    Option("--resume", "The command can stop and come back. These words are appended from its "
           "second start on; {latest} in them is the newest complete checkpoint. Or write ''.",
           "WORDS", _words),
    Option("--signal", "Signal by which such a command is asked to save and leave: TERM, INT, HUP, "
           "USR1 or USR2. Default: TERM.", "NAME", values.signal),
    Option("--save-time", "Time between this signal and the end of the command. Default: 1min.",
           "TIME", values.seconds, name="save_time_s"),
    Option("--checkpoints", "Folder that all machines see; the job has one of its own in it. "
           "Default: it comes back on its first machine alone.", "DIR", str),
    Option("--compat", "Variables of another scheduler, and its command to start the job again: "
           "slurm.", "NAME", values.scheduler),
    Option("--certificate", "Level that `warren check --resume` has found for this command.",
           "LEVEL", values.level),
    Option("--hold", "Keep the job from starting until `warren release`.", name="held"),
    Option("--key", "Answer with the first job of this key, if there is one, and submit none: "
           "makes a script safe to run again.", "KEY", str),
    Option("--notify", "URL of Apprise, such as mailto://USER:PASSWORD@HOST, to which notices of "
           "this job go; off: none. Default: what `warren user set` says.", "URL", str),
    Option("--folder", "Working folder. Default: the current one.", "DIR", str),
    Option("--env", "Set a variable, beside those of this shell. Repeatable.", "NAME=VALUE",
           values.setting, many=True),
)  # fmt: skip
"""What a job may need; a job file has the same fields, without the dashes."""
