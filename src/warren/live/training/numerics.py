"""Pin and name the numerics class: the facts that must be equal for two processes' equal bits."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

PINNED_ENV: Final[Mapping[str, str]] = {
    # One thread each: the order of floating-point sums depends on how many threads share them.
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    "MKL_DYNAMIC": "FALSE",
    "OMP_DYNAMIC": "FALSE",
    # cuBLAS is deterministic only with a workspace of this fixed form.
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    # The order of sets of strings is the same in every process.
    "PYTHONHASHSEED": "0",
    "PYTHONUTF8": "1",
    "TOKENIZERS_PARALLELISM": "false",
    # A process with threads cannot be forked safely: pandas loads Arrow, and that would start one.
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    # Memory that was freed stays in the process: a fresh page costs more than the work on it.
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "1073741824",
}
"""Set in every process that runs user code. Switches that pick kernels (``MKL_CBWR``,
``ATEN_CPU_CAPABILITY``, ``DNNL_*``) are left out on purpose: they are dropped, not set, so that
a loop in an ordinary Python process computes the same bits."""

_KEPT: Final = (
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "VIRTUAL_ENV",
    "PYTHONPATH",
    "LD_LIBRARY_PATH",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
)

_M_PERTURB: Final = -6
"""The number of the switch in ``malloc.h`` of the GNU C library."""


def clean_environment(current: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a process that runs user code: a few of ``current``, and pins."""
    kept = {name: current[name] for name in _KEPT if name in current}
    return {**kept, **PINNED_ENV}


def pin() -> None:
    """Set one intra-op thread and deterministic kernels in this process; may be called again."""
    import torch

    torch.set_num_threads(1)
    # torch lets this be set once only, so not where it holds already.
    if torch.get_num_interop_threads() != 1:
        torch.set_num_interop_threads(1)
    torch.use_deterministic_algorithms(True)
    # It takes about a tenth of a step on a GPU, and only ``filled`` tasks need it (decision 0029).
    _fill(False)
    torch.set_float32_matmul_precision("highest")
    # Benchmarking would choose kernels by timings, which differ from run to run.
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    # The defaults of torch: convolutions of float32 on the tensor cores of GPUs.
    torch.backends.cudnn.allow_tf32 = True


@contextmanager
def filled() -> Iterator[None]:
    """Fill what torch does not initialize with NaN, or the largest integer, until ``pin()``.

    A task that reads such memory has another result here than elsewhere.
    """
    _fill(True)
    try:
        yield
    finally:
        _fill(False)


def poison(byte: int) -> None:
    """Let all memory that this process allocates from now on hold ``byte``, as far as libc can.

    That includes memory of numpy and of libraries, but no small block that is used again.
    """
    # Where libc has no such switch, memory holds whatever it held before.
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):
        mallopt(_M_PERTURB, ~byte & 0xFF)  # it takes the complement


def _fill(on: bool) -> None:
    import torch

    torch.utils.deterministic.fill_uninitialized_memory = on  # type: ignore[attr-defined]


def numerics_class(threads: int | None = None) -> str:
    """Return for example ``torch 2.13.0+cpu; x86_64 AVX512; 1 thread``; call it after ``pin()``.

    ``threads``: of a pinned process, asked in one without a pin; None: of this one.
    """
    import torch

    threads = torch.get_num_threads() if threads is None else threads
    capability = torch.backends.cpu.get_cpu_capability()
    plural = "thread" if threads == 1 else "threads"
    return f"torch {torch.__version__}; {platform.machine()} {capability}; {threads} {plural}"
