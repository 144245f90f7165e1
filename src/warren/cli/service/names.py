"""Names of the service's commands, and the file of each. Light: each ``warren`` loads it."""

from __future__ import annotations

TYPE_CHECKING = False  # not from typing, which takes long to load

if TYPE_CHECKING:
    from typing import Final

JOBS: Final = {
    "submit": ("submit", "Submit a command to the service."),
    "queue": ("listing", "List the jobs of the service, and why each one waits."),
    "show": ("listing", "Show all about a job."),
    "logs": ("following", "Print the output of a job."),
    "why": ("forecasts.outlook", "Say why a job waits, and what can be done."),
    "what-if": ("forecasts.outlook", "Try a change: which jobs would start earlier or later."),
    "wait": ("following", "Wait until jobs have ended."),
    "attach": ("attach", "Open a shell with the devices of a running job."),
    "cancel": ("changes", "Cancel jobs; a running one is stopped."),
    "preempt": ("changes", "Take the devices of running jobs that can come back."),
    "hold": ("changes", "Keep queued jobs from starting."),
    "release": ("changes", "Let held jobs start again."),
    "priority": ("changes", "Change the priority of a job."),
    "extend": ("changes", "Let a running job do nothing for some time."),
    "top": ("machines", "Show all machines, their devices and the jobs on them."),
}
"""File in ``warren.cli.service`` and line of help of each command that people use every day."""
OPERATION: Final = {
    "serve": ("daemon", "Start the service of this machine: a queue for a team."),
    "agent": ("daemon", "Lend the devices of this machine to a service elsewhere."),
    "drain": ("machines", "Start no more jobs on a machine or a device."),
    "undrain": ("machines", "Start jobs there again."),
    "user": ("users", "Add, remove and list users of the service."),
    "quota": ("users", "Limit how many devices a user or a group holds at once."),
}
"""The same, for those who operate the service."""
ALL: Final = {**JOBS, **OPERATION}
