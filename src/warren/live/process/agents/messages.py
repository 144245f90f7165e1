"""Messages of controller and agent under a lease, beside those of the zygote and its controller."""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from warren.live.gpu.discovery import Gpu
from warren.live.process.specs import ZygoteMessage
from warren.live.transport.message import Message


class PutFile(Message, frozen=True, tag="PutFile", array_like=True):
    """Controller to agent: write this file in the host's folder; ``name`` may have one folder."""

    name: str
    data: bytes


class StartZygote(Message, frozen=True, tag="StartZygote", array_like=True):
    """Controller to agent: start the zygote. It loads libraries, and prints to ``log``.

    ``log_bytes``: most bytes that the processes of one job may print to its log.
    """

    libraries: tuple[str, ...]
    log: str
    log_bytes: int


class Listens(Message, frozen=True, tag="Listens", array_like=True):
    """Agent to controller: a process of this host listens to others; see ``tcp_listener``."""

    name: str
    data: bytes


class ZygoteFailed(Message, frozen=True, tag="ZygoteFailed", array_like=True):
    """Agent to controller: the zygote has ended, and with it all; the lease is given back."""

    how: str


class GpusFound(Message, frozen=True, tag="GpusFound", array_like=True):
    """Agent to controller, before its zygote is warm: the GPU of each device that is one.

    ``gpus`` is by the cluster's number of the device. ``problem``: why the devices cannot have
    GPUs; the lease is given back then. Empty: they have.
    """

    gpus: tuple[tuple[int, Gpu], ...] = ()
    problem: str = ""


AgentBody: TypeAlias = ZygoteMessage | PutFile | StartZygote | Listens | ZygoteFailed | GpusFound

AGENT_DECODER: Final = msgspec.msgpack.Decoder(AgentBody)
