"""NVIDIA's numbers of GPU errors (Xid): what each means for the device and for the job on it.

*Source*: NVIDIA, "Analyzing Xid Errors with the Xid Catalog"
(docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html), column "Immediate Action" of A100
and H100. RESET_GPU and RESTART_BM are a fault of the device; RESTART_APP ends one job; IGNORE is a
note.

*Differs*: 48 (uncorrectable memory error) and 74 (NVLink), which have workflows of their own there,
count as faults of the device. 94 ends a job that is not to blame, since its memory was faulty; the
device goes on. 43 is to be ignored there; here it stands in the reason of a job that it ended, as
other errors of programs do. 45 follows each end of a program, so it explains nothing. A number that
is not in the table is shown, and is no fault.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

XidKind = Literal["device", "job", "program", "note", "unknown"]
"""What an error is: a fault of the device; one of the hardware that ended a job, after which the
device goes on; one of the program; a note; not known."""


class Xid(NamedTuple):
    """The meaning of a number; ``text`` is for people."""

    number: int
    kind: XidKind
    text: str

    def __str__(self) -> str:
        return f"Xid {self.number}: {self.text}"

    @property
    def ends_device(self) -> bool:
        """Whether no job should start on the device before it was tested."""
        return self.kind == "device"

    @property
    def rank(self) -> int:
        """How much it explains of the end of a job; 0: nothing."""
        if self.number in _FOLLOWING:
            return _FOLLOWING[self.number]
        return {"device": 4, "job": 3, "program": 2}.get(self.kind, 0)


_FOLLOWING: Final = {43: 1, 45: 0}
"""Rank of numbers that follow another error, or the end of a program."""
_DEVICE: Final = {
    46: "the GPU stopped processing",
    48: "an uncorrectable memory error",
    62: "the power controller of the GPU has halted",
    64: "a faulty row of memory could not be replaced",
    74: "an NVLink error",
    79: "the GPU has fallen off the bus",
    95: "a memory error that was not contained",
    109: "a context switch took too long",
    110: "a security fault of the GPU",
    119: "the firmware of the GPU does not answer",
    120: "an error of the firmware of the GPU",
    136: "an NVLink could not be trained",
    140: "an uncorrectable memory error that the driver could not handle",
    143: "the GPU could not be initialized",
}
_JOB: Final = {94: "a memory error, contained in this job"}
_PROGRAM: Final = {
    8: "the program kept the GPU from going on",
    11: "an invalid stream of commands",
    13: "an exception in a kernel of the program, such as an index out of range",
    31: "illegal memory access by the program",
    32: "an invalid stream of commands",
    39: "an error of a copy",
    40: "an error of a copy",
    41: "an error of a copy",
    43: "the program was stopped after an error of its own",
    45: "clean-up after an earlier error or the end of the program",
    68: "an error of the video decoder",
    69: "an invalid class of commands by the program",
    70: "an error of a copy",
    71: "an error of a copy",
    72: "an error of a copy",
    75: "an error of a copy",
    76: "an error of a copy",
    77: "an error of a copy",
    80: "a damaged stream of commands",
}
_NOTES: Final = {
    54: "auxiliary power is not connected; the GPU is slower",
    63: "a faulty row of memory will be replaced at the next reset",
    92: "many memory errors that were corrected",
    93: "the store of the GPU's settings is worn out",
    121: "an error between processor and GPU, corrected",
    137: "an error of an NVLink's other end",
    154: "the driver recommends another recovery",
}
_TABLES: Final[tuple[tuple[XidKind, dict[int, str]], ...]] = (
    ("device", _DEVICE),
    ("job", _JOB),
    ("program", _PROGRAM),
    ("note", _NOTES),
)
XIDS: Final = {
    number: Xid(number, kind, text) for kind, table in _TABLES for number, text in table.items()
}
"""Number to its meaning."""


def xid(number: int) -> Xid:
    """Return the meaning of a number."""
    return XIDS.get(number) or Xid(number, "unknown", "not known; see NVIDIA's catalog")


def blames_hardware(number: int | None) -> bool:
    """Tell whether a job that ended with this error is not to blame; None stands for no error."""
    return number is not None and xid(number).kind in ("device", "job")


def worst(numbers: Iterable[int | None]) -> int | None:
    """Return the number that explains most of the end of a job; None if none explains anything."""
    known = [one for one in numbers if one is not None and xid(one).rank]
    return max(known, key=lambda one: xid(one).rank, default=None)
