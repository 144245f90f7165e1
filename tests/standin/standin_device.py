"""Makes the device ``standin``, whose memory a processor cannot read, with a C++ compiler."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sysconfig
import types
from pathlib import Path
from typing import Any

import torch

NAME = "standin"
_SOURCE = Path(__file__).with_name("standin_device.cpp")
_CACHE = Path(__file__).resolve().parents[2] / "build" / "standin"
_loaded: list[ctypes.CDLL] = []


def why_not() -> str:
    """Return the reason why the device cannot be made here; empty: it can."""
    if shutil.which("g++") is None:
        return "there is no C++ compiler (g++)"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "Python.h is not installed"
    return ""


def device() -> torch.device:
    """Return the device, made at the first call in this process."""
    if not _loaded:
        torch.utils.rename_privateuse1_backend(NAME)
        torch._register_device_module(NAME, _module())
        _loaded.append(ctypes.CDLL(str(_library()), ctypes.RTLD_GLOBAL))
        torch.utils.generate_methods_for_privateuse1_backend()
        _loaded[0].standin_copies_out.restype = ctypes.c_long
    return torch.device(NAME, 0)


def copies_out() -> int:
    """Return the number of copies out of the device so far; on a GPU each waits for it."""
    return int(_loaded[0].standin_copies_out())


def _library() -> Path:
    root = Path(torch.__file__).parent
    text = _SOURCE.read_bytes() + torch.__version__.encode()
    target = _CACHE / f"{hashlib.sha256(text).hexdigest()[:16]}.so"
    if target.exists():
        return target
    _CACHE.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(f".{os.getpid()}")
    abi = int(torch._C._GLIBCXX_USE_CXX11_ABI)
    command = ["g++", "-O0", "-std=c++20", "-shared", "-fPIC", f"-D_GLIBCXX_USE_CXX11_ABI={abi}"]
    command.append("-DAT_PER_OPERATOR_HEADERS")
    for folder in (root / "include", root / "include/torch/csrc/api/include"):
        command.append(f"-I{folder}")
    command += [f"-I{sysconfig.get_path('include')}", str(_SOURCE), "-o", str(part)]
    command += [f"-L{root / 'lib'}", "-lc10", "-ltorch_cpu", f"-Wl,-rpath,{root / 'lib'}"]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        raise RuntimeError(made.stderr[-4000:])
    part.rename(target)
    return target


def _module() -> Any:
    module = types.ModuleType(f"torch.{NAME}")
    module.is_available = lambda: True
    module.device_count = lambda: 1
    module.current_device = lambda: 0
    module.set_device = lambda _: None
    module.is_initialized = lambda: True
    module._is_in_bad_fork = lambda: False
    module.manual_seed_all = lambda _: None
    module.synchronize = lambda _=None: None
    module.get_amp_supported_dtype = lambda: [torch.float16, torch.bfloat16]
    return module
