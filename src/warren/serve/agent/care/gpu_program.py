"""The self-test of a GPU, a program of its own: memory, copies, and products compared by bits.

Matrices hold whole numbers so small that each sum is exact in every order and format. So a correct
device computes the same bits as the processor. It exits with 0 if the GPU passes, 75 if it could
not be tested, and 1 if it is faulty; then its last line says why.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, Final

UNTESTED: Final = 75
"""Exit code of a test that could not be made: EX_TEMPFAIL of <sysexits.h>."""
_SIZE: Final = 1024
"""Rows and columns of each matrix; a sum of products of 0, 1 and -1 is exact in float16 up to
2,048."""
_WORDS: Final = 1 << 26
"""Words of 4 bytes of memory that are written and read."""
_COPIED: Final = 1 << 22
"""Words of 4 bytes that are copied back to the host."""
_PATTERNS: Final = (0x55555555, -0x55555556)


def fault_of(torch: Any, device: str, words: int = _WORDS) -> str:
    """Return what is wrong with a device; empty if nothing is.

    Parameters
    ----------
    torch
        The module.
    device
        Its name for PyTorch: ``cuda``.
    words
        Words of 4 bytes of memory that are looked at.
    """
    for pattern in _PATTERNS:
        block = torch.full((words,), pattern, dtype=torch.int32, device=device)
        wrong = int((block != pattern).sum())
        if wrong:
            return f"{wrong} of {words} words of memory do not keep their value"
        back = block[: min(words, _COPIED)].cpu()
        if int((back != pattern).sum()):
            return "a copy from the device has other bits"
        del block
    left, right = _matrix(torch, 7), _matrix(torch, 11)
    known = left @ right
    for dtype in (torch.float32, torch.float16):
        first, second = left.to(device, dtype), right.to(device, dtype)
        for _ in range(2):
            found = (first @ second).cpu().to(torch.float64)
            if not torch.equal(found, known):
                wrong = int((found != known).sum())
                return f"{wrong} of {_SIZE * _SIZE} values of a product in {dtype} are wrong"
    return ""


def _matrix(torch: Any, step: int) -> Any:
    """Return a matrix of 0, 1 and -1 on the processor."""
    numbers = torch.arange(_SIZE * _SIZE, dtype=torch.int64)
    return ((numbers * step + numbers // 5) % 3 - 1).reshape(_SIZE, _SIZE).to(torch.float64)


def main() -> int:
    """Test the one GPU that CUDA_VISIBLE_DEVICES leaves."""
    try:
        torch = importlib.import_module("torch")
        if not torch.cuda.is_available():
            return _said("PyTorch finds no GPU", UNTESTED)
        torch.zeros(1, device="cuda").cpu()
    except Exception as error:  # of the installation, or the GPU is in use by others
        return _said(f"CUDA does not start: {error}", UNTESTED)
    try:
        fault = fault_of(torch, "cuda")
    except torch.cuda.OutOfMemoryError:
        return _said("too little memory is free", UNTESTED)
    except RuntimeError as error:
        fault = str(error)
    return _said(fault, 1) if fault else 0


def _said(text: str, code: int) -> int:
    print(" ".join(text.split("\n", 1)[0].split()), flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
