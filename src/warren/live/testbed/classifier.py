"""Programs of classic BPF that give a port the HTB class of a frame. Pure.

A frame's flow class is in the code point of its IP header (``warren.live.flow_marks``), its flow in
its two TCP ports.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

Instruction = tuple[int, int, int, int]
"""Code, jump if true, jump if false, operand (linux/filter.h)."""

# Instruction codes: class, size or operation, and mode or source.
_LOAD_16: Final = 0x28
_LOAD_8: Final = 0x30
_LOAD_KEPT: Final = 0x60
_KEEP: Final = 0x02
_IF_EQUAL: Final = 0x15
_IF_ABOVE: Final = 0x25
_TO_X: Final = 0x07
_XOR_X: Final = 0xAC
_ADD_X: Final = 0x0C
_SHIFT_RIGHT: Final = 0x74
_SHIFT_LEFT: Final = 0x64
_NEGATE: Final = 0x84
_AND: Final = 0x54
_ADD: Final = 0x04
_RETURN: Final = 0x06
_RETURN_A: Final = 0x16

# Where fields are in an Ethernet frame with an IP header without options, which no testbed has.
_ETHER_TYPE: Final = 12
_IP_TOS: Final = 15
_IP_LENGTH: Final = 16
_FROM_PORT: Final = 34
_TO_PORT: Final = 36
_IPV4: Final = 0x0800
_MAJOR: Final = 1 << 16
"""HTB classes are called 1:MINOR."""

_CLASS: Final[tuple[Instruction, ...]] = (
    # Code points are 8 (8 - class), class 0 has 0: the upper 3 bits of TOS are -class modulo 8.
    (_LOAD_8, 0, 0, _IP_TOS),
    (_SHIFT_RIGHT, 0, 0, 5),
    (_NEGATE, 0, 0, 0),
    (_AND, 0, 0, 7),
)


def by_class(first: int) -> str:
    """Return a program that gives HTB class 1:(``first`` + flow class), as bytecode for ``tc``.

    No match if the frame is not IP.
    """
    found = (*_CLASS, (_ADD, 0, 0, _MAJOR + first), (_RETURN_A, 0, 0, 0))
    return _text([(_LOAD_16, 0, 0, _ETHER_TYPE), (_IF_EQUAL, 0, len(found), _IPV4), *found])


def by_class_and_flow(unmarked: int, marked: int, least_bytes: int) -> str:
    """Return a program that gives HTB class 1:(0x100 (flow class + 1) + number of the flow).

    No match if the frame is not IP, or small.

    Parameters
    ----------
    unmarked, marked
        Number of values for flows of class 0, and for each other class: powers of two, at most 256.
        Bits of the ports choose a value; now and then two flows share one.
    least_bytes
        Size up to which IP packets count as small.
    """
    # x = a ^ b for the two ports; the flow is (x >> 7 ^ x).
    flow: tuple[Instruction, ...] = (
        (_LOAD_16, 0, 0, _FROM_PORT),
        (_TO_X, 0, 0, 0),
        (_LOAD_16, 0, 0, _TO_PORT),
        (_XOR_X, 0, 0, 0),
        (_TO_X, 0, 0, 0),
        (_SHIFT_RIGHT, 0, 0, 7),
        (_XOR_X, 0, 0, 0),
        (_KEEP, 0, 0, 0),
    )
    of_marked: tuple[Instruction, ...] = (
        (_ADD, 0, 0, 1),
        (_SHIFT_LEFT, 0, 0, 8),
        (_TO_X, 0, 0, 0),
        (_LOAD_KEPT, 0, 0, 0),
        (_AND, 0, 0, marked - 1),
        (_ADD_X, 0, 0, 0),
        (_ADD, 0, 0, _MAJOR),
        (_RETURN_A, 0, 0, 0),
    )
    of_unmarked: tuple[Instruction, ...] = (
        (_LOAD_KEPT, 0, 0, 0),
        (_AND, 0, 0, unmarked - 1),
        (_ADD, 0, 0, _MAJOR + 0x100),
        (_RETURN_A, 0, 0, 0),
    )
    found = (
        *flow,
        *_CLASS,
        (_IF_EQUAL, len(of_marked), 0, 0),
        *of_marked,
        *of_unmarked,
    )
    return _text(
        [
            (_LOAD_16, 0, 0, _ETHER_TYPE),
            (_IF_EQUAL, 0, len(found) + 2, _IPV4),
            (_LOAD_16, 0, 0, _IP_LENGTH),
            (_IF_ABOVE, 0, len(found), least_bytes),
            *found,
        ]
    )


def _text(code: Sequence[Instruction]) -> str:
    """Return instructions as ``tc`` takes them; where they end without an answer is no match."""
    whole = [*code, (_RETURN, 0, 0, 0)]
    return f"{len(whole)}," + ",".join(" ".join(map(str, one)) for one in whole) + ","
