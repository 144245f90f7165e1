"""Requests to the privileged helper: a fixed list of operations, and allowed field values.

Pure. The helper decodes and checks each request again, whatever its sender. A request that passes
holds only names, addresses and numbers, and no text of a user reaches ``nft`` or ``tc`` in another
form.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

from warren.live.flow_marks import CODE_POINTS, MOST_POINT, SWITCH_POINTS
from warren.model.decision import CLASSES
from warren.model.errors import Problem, SpecError
from warren.model.testbed import NAME_TEXT, is_name

CodePoints: TypeAlias = tuple[int, ...]
QueueKind = Literal["htb", "prio", "ets"]
KINDS: Final = get_args(QueueKind)
MOST_BYTES: Final = 64 * 1024
"""The longest request, as a line."""
_MOST_ENDPOINTS: Final = 64
_MOST_RANGES: Final = 256
MOST_PEERS: Final = 256
"""Addresses of other hosts to which the flows of a job have a class of their own."""
_RATE_BPS: Final = (100_000, 10**13)
_DEVICE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,14}")


class _Checked(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    label: str


class Endpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An end of flows: an address (empty: any) and ranges of ports, both included (none: any)."""

    address: str = ""
    ports: tuple[tuple[int, int], ...] = ()


class SetUpQueues(_Checked, frozen=True, tag="set-up"):
    """Make eight queues in strict order for traffic that leaves by a device.

    ``guaranteed_bps``: the rate that each queue always has; 0: 0.1 % of the rate. Only HTB has a
    rate and a guarantee. ``code_points``: the DSCP of each class, as marks have it.
    """

    device: str
    rate_bps: int = 0
    kind: str = "htb"
    guaranteed_bps: int = 0
    code_points: CodePoints = CODE_POINTS


class RemoveQueues(_Checked, frozen=True, tag="remove-queues"):
    """Remove the queues of a device."""

    device: str


class PeerClass(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The class of traffic to an address of another host."""

    address: str
    flow_class: int


class MarkFlows(_Checked, frozen=True, tag="mark"):
    """Give the flows of a job a class, in place of their present one.

    ``queue``: the class whose queue they leave this host by; -1: that of their mark. ``peers``: the
    classes that they are marked with in place of ``flow_class``, by target address.
    ``code_points``: the DSCP of each class.
    """

    job: str
    flow_class: int
    endpoints: tuple[Endpoint, ...]
    queue: int = -1
    peers: tuple[PeerClass, ...] = ()
    code_points: CodePoints = CODE_POINTS


class UnmarkFlows(_Checked, frozen=True, tag="unmark"):
    """Mark the flows of a job no more."""

    job: str


class ListFlows(_Checked, frozen=True, tag="list"):
    """List the rules under the label."""


class ClearFlows(_Checked, frozen=True, tag="clear"):
    """Remove all that stands under the label."""


FlowRequest = SetUpQueues | RemoveQueues | MarkFlows | UnmarkFlows | ListFlows | ClearFlows


def decoded(line: bytes) -> FlowRequest:
    """Read and check a request from JSON.

    Raises
    ------
    SpecError
        If it is none of the operations, or a field is not allowed.
    """
    if len(line) > MOST_BYTES:
        raise wrong("request", f"is longer than {MOST_BYTES} bytes")
    try:
        request: FlowRequest = msgspec.json.decode(line, type=FlowRequest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise wrong("request", str(error)) from None
    return checked(request)


def checked(request: FlowRequest) -> FlowRequest:
    """Return a request if all of its fields are allowed.

    Raises
    ------
    SpecError
        Naming the first forbidden field, and the allowed values.
    """
    _check_name("label", request.label)
    if isinstance(request, SetUpQueues | RemoveQueues):
        _check_device(request.device)
    if isinstance(request, SetUpQueues | MarkFlows):
        _check_points(request.code_points)
    if isinstance(request, SetUpQueues):
        _check_queues(request)
    if isinstance(request, MarkFlows | UnmarkFlows):
        _check_name("job", request.job)
    if isinstance(request, MarkFlows):
        _check_marks(request)
    return request


def _check_name(field: str, name: Any) -> None:
    if not is_name(name):
        raise wrong(field, f"{name[:60]!a} is not a name; allowed: {NAME_TEXT}")


def _check_device(device: str) -> None:
    if not _DEVICE.fullmatch(device):
        allowed = "1 to 15 of A-Z a-z 0-9 _ . -, a letter or digit first"
        raise wrong("device", f"{device[:60]!a} is not an interface; allowed: {allowed}")


def _check_queues(request: SetUpQueues) -> None:
    if request.kind not in KINDS:
        raise wrong("queues", f"{request.kind[:60]!a} is not known; allowed: {', '.join(KINDS)}")
    low, high = _RATE_BPS
    if request.kind != "htb":
        if request.rate_bps or request.guaranteed_bps:
            raise wrong("rate", f"{request.kind} limits no rate; leave it out, or take htb")
        return
    if not low <= request.rate_bps <= high:
        raise wrong("rate", f"{request.rate_bps} bit/s; allowed: {low} to {high}")
    if not 0 <= request.guaranteed_bps <= request.rate_bps // CLASSES:
        raise wrong("guaranteed", f"must be 0 to 1/{CLASSES} of the rate")


def _check_marks(request: MarkFlows) -> None:
    own = () if request.queue == -1 else (request.queue,)
    for one in (request.flow_class, *own, *(peer.flow_class for peer in request.peers)):
        check_class(one)
    if len(request.peers) > MOST_PEERS:
        raise wrong("peers", f"{len(request.peers)}; allowed: {MOST_PEERS} at most")
    for peer in request.peers:
        address_of(peer.address)
    if not 1 <= len(request.endpoints) <= _MOST_ENDPOINTS:
        raise wrong("endpoints", f"{len(request.endpoints)}; allowed: 1 to {_MOST_ENDPOINTS}")
    for one in request.endpoints:
        if not one.address and not one.ports:
            raise wrong("endpoints", "one has neither address nor ports: it would be all flows")
        if one.address:
            address_of(one.address)
        if len(one.ports) > _MOST_RANGES:
            raise wrong("port", f"{len(one.ports)} ranges; allowed: {_MOST_RANGES} at most")
        for first, last in one.ports:
            if not 1 <= first <= last <= 65535:
                raise wrong("port", f"{first}-{last}; allowed: 1 to 65535, the lower one first")


def _check_points(points: CodePoints) -> None:
    if len(points) != CLASSES or not all(0 <= one <= MOST_POINT for one in points):
        allowed = f"{CLASSES} numbers from 0 to {MOST_POINT}, of class 0 first"
        raise wrong("code-points", f"{str(points)[:60]}; allowed: {allowed}")


def code_points_of(text: str) -> CodePoints:
    """Read the code points of all classes: ``testbed``, ``switch``, or eight numbers.

    Raises
    ------
    SpecError
        If they are none.
    """
    known = {"testbed": CODE_POINTS, "switch": SWITCH_POINTS}
    if text in known:
        return known[text]
    parts = [part.strip() for part in text.split(",")]
    found = tuple(int(part) if re.fullmatch(r"\d{1,2}", part, re.ASCII) else -1 for part in parts)
    try:
        _check_points(found)
    except SpecError:
        allowed = f"testbed, switch, or {CLASSES} numbers from 0 to {MOST_POINT}"
        raise wrong("--code-points", f"{text[:60]!a}; allowed: {allowed}") from None
    return found


def check_class(flow_class: int) -> None:
    """Refuse a number that is no class. Raises SpecError."""
    if not 0 <= flow_class < CLASSES:
        raise wrong("class", f"{flow_class} is no class; allowed: 0 to {CLASSES - 1}")


def address_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Read the address of one host.

    Raises
    ------
    SpecError
        If it is none.
    """
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        raise wrong("address", f"{text[:60]!a} is not an address like 10.0.0.1") from None
    if found.is_multicast or found.is_unspecified or getattr(found, "scope_id", None):
        raise wrong("address", f"{text[:60]!a} is not the address of one host")
    return found


def ports_of(text: str) -> tuple[tuple[int, int], ...]:
    """Read ports like ``29500,29510-29520``, as ranges with both ends.

    Raises
    ------
    SpecError
        If one is none.
    """
    found = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", part.strip(), re.ASCII)
        if not match:
            raise wrong("port", f"{part[:60]!a} is no port; allowed: like 29500,29510-29520")
        found.append((int(match[1]), int(match[2] or match[1])))
    return tuple(found)


def wrong(field: str, message: str) -> SpecError:
    """Return the error for a forbidden field, with the allowed values."""
    return SpecError(Problem(file="flow", field=field, message=message))
