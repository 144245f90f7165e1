"""Machines of several kinds: what a round of whole tasks takes on some of each kind.

*A number of machines is one number.* With at most N_k machines of kind k, n_k of each are the code
n_0 + n_1 (N_0 + 1) + n_2 (N_0 + 1) (N_1 + 1) + ...: the machines of two groups have the sum of
their codes, and no sum of groups is ambiguous. Machines of one kind have their number as the code.

*A round.* m machines of a group have D_t devices of type t, on which a task of job j takes c_jt.
Tasks go one after another where they are done first; those that would end at once on several types
are shared by devices. So type t computes a_jt tasks of a round, and the last one ends at X_j; w_j
devices have a task. Each machine has an equal part of the servers. Let u_jk be the time of the link
of a machine of kind k for one state or update, w_jk the devices at work and a_jk the tasks there.
All are of the busiest link, in one direction::

    pull_j = max over k of u_jk max((w_j - w_jk) / m, w_jk (1 - 1/m))
    push_j = max over k of u_jk max((a_j - a_jk) / m, a_jk (1 - 1/m))
    COMM_j = rest_j + pull_j + push_j,   rest_j = n_j + d_j if m > 1, else n_j
    alone_j = rest_j + pull_j + max(X_j + pull_j, min over t with a_jt > 0 of c_jt + push_j)
    (4.1)   T = max(max over t of sum_j a_jt c_jt / D_t, sum_j COMM_j, max over j of alone_j)

For machines of one kind whose tasks come out even these are the formulas of ``problem``.

*Source.* Ours, as ``warren.solve.shapes.task_rounds`` for one job. Harmony's (4.2) has equal
machines.

*Symbols.* Axes J: jobs; K: kinds of machines; T: device types.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from warren.solve.common.arrays import Float, FloatArray, Int, IntArray
from warren.solve.common.compile import kernel

_EVEN: Final = 1e-9
"""Part by which ends of tasks may differ, by rounding, and count as one end."""
_ALL_CODES: Final = 64
"""Most parts of some machines that are all listed."""


_CODES: Final = 2.0**62
"""Number of codes from which on they may not fit in 64 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnequalMachines:
    """The machines of each kind, their devices and links, and the tasks of each job.

    ``count_K``: machines; ``devices_KT``: devices of one machine; ``task_s_JT``: seconds of a task;
    ``unit_s_JK``: seconds that a state of the job takes on the link of a machine; ``tasks_J``:
    tasks of a round.
    """

    count_K: IntArray
    devices_KT: IntArray
    task_s_JT: FloatArray
    unit_s_JK: FloatArray
    tasks_J: IntArray

    @property
    def stride_K(self) -> IntArray:
        """Return the code of one machine of each kind."""
        return strides(self.count_K)

    @property
    def all_code(self) -> int:
        """Return the code of all machines."""
        return int(self.stride_K @ self.count_K)

    def part(self, jobs: IntArray) -> UnequalMachines:
        """Return the same machines with some of the jobs, by index."""
        return replace(
            self,
            task_s_JT=self.task_s_JT[jobs],
            unit_s_JK=self.unit_s_JK[jobs],
            tasks_J=self.tasks_J[jobs],
        )

    def columns(self) -> KindColumns:
        """Return the columns that kernels take, with scratch of their own."""
        kinds, types = self.devices_KT.shape
        return KindColumns(
            self.stride_K,
            np.ascontiguousarray(self.devices_KT, np.float64),
            np.ascontiguousarray(self.task_s_JT, np.float64),
            np.ascontiguousarray(self.unit_s_JK, np.float64),
            np.ascontiguousarray(self.tasks_J, np.float64),
            np.zeros(kinds, np.int64),
            np.zeros(types),
            np.zeros(types),
            np.zeros(types),
        )

    def dealt(self, machine_G: IntArray) -> IntArray:
        """Return codes of groups with given numbers of machines; the first groups get the fastest.

        A machine is as fast as its devices are together, in the mean over jobs.
        """
        speed_JK = (1 / self.task_s_JT) @ self.devices_KT.T
        speed_K = (speed_JK / speed_JK.mean(axis=1, keepdims=True)).mean(axis=0)
        order = np.argsort(-speed_K, kind="stable")
        stride_of_machine = np.repeat(self.stride_K[order], self.count_K[order])
        sum_M = np.concatenate([[0], np.cumsum(stride_of_machine)])
        ends_G = np.cumsum(machine_G)
        code_G: IntArray = sum_M[ends_G] - sum_M[ends_G - machine_G]
        return code_G


class KindColumns(NamedTuple):
    """``UnequalMachines`` for kernels; of length 0 where machines are of one kind.

    Scratch: ``machine_K``: the machines of a group; ``device_T``: its devices; ``given_T``: the
    tasks of one job; ``load_T``: COMP of all jobs, in seconds.
    """

    stride_K: IntArray
    devices_KT: FloatArray
    task_s_JT: FloatArray
    unit_s_JK: FloatArray
    tasks_J: FloatArray
    machine_K: IntArray
    device_T: FloatArray
    given_T: FloatArray
    load_T: FloatArray


def no_kinds() -> KindColumns:
    """Return the columns of machines of one kind."""
    whole, none, none_2 = np.zeros(0, np.int64), np.zeros(0), np.zeros((0, 0))
    return KindColumns(whole, none_2, none_2, none_2, none, whole, none, none, none)


def strides(count_K: IntArray) -> IntArray:
    """Compute the code of one machine of each kind."""
    stride_K: IntArray = np.concatenate([[1], np.cumprod(count_K[:-1] + 1)]).astype(np.int64)
    return stride_K


def is_codable(count_K: IntArray) -> bool:
    """Tell whether the codes of all machines fit in 64 bits."""
    return bool(np.prod(count_K + 1.0) < _CODES)


def digits(code: int, stride_K: IntArray) -> list[int]:
    """Return how many machines of each kind a code has."""
    found = []
    for stride in reversed(stride_K.tolist()):
        found.append(code // stride)
        code %= stride
    return found[::-1]


def parts_of(code: int, stride_K: IntArray) -> Iterator[int]:
    """Yield codes of some of the machines of a code, at least one, and of all of them.

    Every part; if those are many, 1, 2, 4, ... machines of one kind, all machines but these, and
    all.
    """
    most = digits(code, stride_K)
    if np.prod([count + 1.0 for count in most]) <= _ALL_CODES:
        codes = [0]
        for stride, count in zip(stride_K.tolist(), most, strict=True):
            codes = [one + stride * n for n in range(count + 1) for one in codes]
        yield from codes[1:]
        return
    for stride, count in zip(stride_K.tolist(), most, strict=True):
        for n in sorted({*(1 << power for power in range(count.bit_length())), count} - {0}):
            yield stride * n
            if code > stride * n:
                yield code - stride * n
    yield code


@kernel
def machines_of(kinds: KindColumns, code: Int) -> Int:
    """Write the machines of a code by kind into scratch, and their devices; return their number."""
    total = np.int64(0)
    for of_type in range(len(kinds.device_T)):
        kinds.device_T[of_type] = 0.0
    for kind in range(len(kinds.stride_K) - 1, -1, -1):
        count = code // kinds.stride_K[kind]
        code -= count * kinds.stride_K[kind]
        kinds.machine_K[kind] = count
        total += count
        for of_type in range(kinds.devices_KT.shape[1]):
            kinds.device_T[of_type] += count * kinds.devices_KT[kind, of_type]
    return np.int64(total)


@kernel
def begin_group(kinds: KindColumns) -> None:
    """Forget the COMP of jobs."""
    for of_type in range(len(kinds.load_T)):
        kinds.load_T[of_type] = 0.0


@kernel
def _spread(kinds: KindColumns, job: Int) -> Float:
    """Write the tasks of a job's round by type into scratch; return when the last one ends."""
    device_T, given_T = kinds.device_T, kinds.given_T
    left = kinds.tasks_J[job]
    speed = 0.0
    for of_type in range(len(device_T)):
        speed += device_T[of_type] / kinds.task_s_JT[job, of_type]
    # No schedule ends before this; what ends by then on each type comes first.
    bound = left / speed
    for of_type in range(len(device_T)):
        each = np.floor(bound / kinds.task_s_JT[job, of_type] * (1.0 + _EVEN))
        given_T[of_type] = each * device_T[of_type]
        left -= given_T[of_type]
    end = bound
    while left > 0.5:
        end = np.inf
        for of_type in range(len(device_T)):
            if device_T[of_type] > 0.0:
                each = np.floor(given_T[of_type] / device_T[of_type] + 0.5)
                end = min(end, (each + 1.0) * kinds.task_s_JT[job, of_type])
        room = 0.0
        for of_type in range(len(device_T)):
            if device_T[of_type] > 0.0:
                each = np.floor(given_T[of_type] / device_T[of_type] + 0.5)
                if (each + 1.0) * kinds.task_s_JT[job, of_type] <= end * (1.0 + _EVEN):
                    room += device_T[of_type]
        part = min(1.0, left / room)
        for of_type in range(len(device_T)):
            if device_T[of_type] > 0.0:
                each = np.floor(given_T[of_type] / device_T[of_type] + 0.5)
                if (each + 1.0) * kinds.task_s_JT[job, of_type] <= end * (1.0 + _EVEN):
                    given_T[of_type] += part * device_T[of_type]
        left -= room
    return float(end)


@kernel
def add_round(kinds: KindColumns, job: Int, machines: Int) -> tuple[Float, Float, Float]:
    """Add the COMP of a job's round on the machines in scratch; return pull, push and time alone.

    Without the time of a round that does not depend on the machines.
    """
    device_T, given_T, load_T = kinds.device_T, kinds.given_T, kinds.load_T
    end = _spread(kinds, job)
    first, work = np.inf, 0.0
    for of_type in range(len(device_T)):
        if given_T[of_type] > 0.0:
            task = kinds.task_s_JT[job, of_type]
            first = min(first, task)
            load_T[of_type] += given_T[of_type] * task / device_T[of_type]
            work += min(given_T[of_type], device_T[of_type])
    part, pull, push = 1.0 / machines, 0.0, 0.0
    for kind in range(len(kinds.stride_K)):
        if kinds.machine_K[kind] > 0:
            pulls, tasks = 0.0, 0.0
            for of_type in range(len(device_T)):
                if given_T[of_type] > 0.0:
                    each = given_T[of_type] / device_T[of_type]
                    pulls += kinds.devices_KT[kind, of_type] * min(1.0, each)
                    tasks += kinds.devices_KT[kind, of_type] * each
            unit = kinds.unit_s_JK[job, kind]
            pull = max(pull, unit * max((work - pulls) * part, pulls * (1.0 - part)))
            push = max(push, unit * max((kinds.tasks_J[job] - tasks) * part, tasks * (1.0 - part)))
    return float(pull), float(push), float(pull + max(end + pull, first + push))


@kernel
def longest_comp(kinds: KindColumns) -> Float:
    """Return the COMP of all jobs that were added, on the type on which it is longest."""
    longest = 0.0
    for of_type in range(len(kinds.load_T)):
        longest = max(longest, kinds.load_T[of_type])
    return float(longest)


@kernel
def measure_jobs(kinds: KindColumns, code_J: IntArray, times_J3: FloatArray) -> None:
    """Write pull, push and time alone of each job on the machines of its code."""
    for job in range(len(code_J)):
        machines = machines_of(kinds, code_J[job])
        pull, push, alone = add_round(kinds, job, machines)
        times_J3[job, 0] = pull
        times_J3[job, 1] = push
        times_J3[job, 2] = alone


@kernel
def measure_groups(
    kinds: KindColumns, group_J: IntArray, code_G: IntArray, comp_G: FloatArray
) -> None:
    """Write the COMP of each group on the machines of its code."""
    for group in range(len(code_G)):
        machines = machines_of(kinds, code_G[group])
        begin_group(kinds)
        for job in range(len(group_J)):
            if group_J[job] == group:
                add_round(kinds, job, machines)
        comp_G[group] = longest_comp(kinds)
