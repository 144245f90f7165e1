"""The probe: notes each optimizer step of a process, without a change to the script or its bits.

The interpreter of the command imports this file at its start, because its folder is first in
``PYTHONPATH``. Each process that makes optimizer steps writes a file, with a JSON line a step.
The probe only reads: tensors are hashed, and states of random generators are copied.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.machinery
import importlib.util
import itertools
import json
import os
import sys
import time
from collections.abc import Mapping
from typing import Any

_FOLDER = os.environ.get("WARREN_CHECK_NOTES", "")
_CHECKPOINTS = os.path.abspath(os.environ.get("WARREN_CHECKPOINT_DIR", "."))
_ROWS = 64
_INPUTS = 64
_OTHERS = 8
_FEW = 1 << 24
_HERE = os.path.dirname(os.path.abspath(__file__))


class _Probe:
    """What one process has done."""

    def __init__(self) -> None:
        self.file = -1
        self.pid = 0
        self.steps = 0
        self.depth = 0
        self.optimizers: list[Any] = []
        self.inputs: list[Any] = []
        self.forward: dict[str, Any] = {}
        self.others: list[str] = []
        self.before: dict[str, Any] = {}
        self.scale: float | None = None
        self.writes = 0
        self.files: dict[str, Any] | None = None

    def write(self, note: dict[str, Any]) -> None:
        """Append one line to the notes of this process."""
        if self.pid != os.getpid():  # the first line, or a fork of a process that had notes
            self.pid = os.getpid()
            name = f"{_FOLDER}/{time.monotonic_ns():020d}-{self.pid}.jsonl"
            self.file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            self.steps = 0
            self.write({"executable": sys.executable, "path": sys.path, "rank": _rank()})
        os.write(self.file, json.dumps(note).encode() + b"\n")


_PROBE = _Probe()


def folder_files(folder: str) -> dict[str, Any]:
    """Return what changes with each file below a folder: time, size and inode, by its name."""
    found: dict[str, Any] = {}
    for base, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(base, name)
            try:
                one = os.stat(path)
            except OSError:
                continue
            found[os.path.relpath(path, folder)] = [one.st_mtime_ns, one.st_size, one.st_ino]
    return found


def state_of_files(files: dict[str, Any]) -> str:
    """Return a text that changes when a file is written, renamed or deleted."""
    return _text_hash(repr(sorted(files.items())))


def _rank() -> str:
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return str(distributed.get_rank())
    return os.environ.get("RANK", "0")


def _bytes(tensor: Any) -> Any:
    torch = sys.modules["torch"]
    tensor = tensor.detach()
    if hasattr(tensor, "to_local"):
        tensor = tensor.to_local()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    return tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy()


def _add(digest: Any, tensor: Any) -> None:
    digest.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
    try:
        digest.update(_bytes(tensor))
    except (RuntimeError, TypeError, NotImplementedError):
        digest.update(b"unreadable")


def _hash(tensors: Any) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for tensor in tensors:
        _add(digest, tensor)
    return str(digest.hexdigest())


def _text_hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _random_states() -> dict[str, str]:
    torch = sys.modules["torch"]
    found = {"torch": _hash([torch.get_rng_state()])}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        found["cuda"] = _hash([torch.cuda.get_rng_state()])
    random = sys.modules.get("random")
    if random is not None:
        found["python"] = _text_hash(repr(random.getstate()))
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        state = numpy.get_state()
        found["numpy"] = _text_hash(f"{state[1].tobytes().hex()}{state[2:]}")
    return found


def _tensors(value: Any, name: str = "", depth: int = 0) -> Any:
    """Yield the data in the arguments of a model; what needs a gradient has been computed."""
    torch = sys.modules["torch"]
    if isinstance(value, torch.Tensor):
        if not value.requires_grad:
            yield name, value
    elif isinstance(value, torch.nn.Module) or depth > 4:
        return
    elif isinstance(value, Mapping):
        for key in value:
            yield from _tensors(value[key], f"{name}.{key}", depth + 1)
    elif isinstance(value, (list, tuple)):
        for index, one in enumerate(value):
            yield from _tensors(one, f"{name}.{index}", depth + 1)
    elif hasattr(value, "__dict__"):
        yield from _tensors(vars(value), name, depth + 1)


def _input(name: str, tensor: Any) -> list[Any]:
    """Return name, hash, and hashes of the first rows of a tensor of a batch."""
    rows = []
    if tensor.dim() >= 1 and tensor.shape[0] > 1 and tensor.numel() > tensor.shape[0]:
        rows = [_hash([row])[:8] for row in tensor[:_ROWS]]
    return [name, _hash([tensor]), rows]


def _compiling() -> bool:
    torch = sys.modules["torch"]
    return bool(torch.compiler.is_compiling())


def _held(module: Any, *, fixed: bool) -> Any:
    """Yield buffers and weights of a module up to a size; with ``fixed`` no trained weights."""
    left = _FEW
    for one in itertools.chain(module.buffers(), module.parameters()):
        if not (fixed and one.requires_grad):
            left -= one.numel()
            if left < 0:
                return
            yield one


def _before_forward(module: Any, _arguments: Any) -> None:
    if _compiling():
        return
    _PROBE.depth += 1
    if _PROBE.depth > 1:
        return
    torch = sys.modules["torch"]
    learns = torch.is_grad_enabled() and any(one.requires_grad for one in module.parameters())
    if torch.is_grad_enabled() and not _PROBE.forward:
        _PROBE.forward = {"rng": _random_states()}
    if learns:
        if "buffers" not in _PROBE.forward:
            _PROBE.forward["buffers"] = _hash(_held(module, fixed=True))
    elif len(_PROBE.others) < _OTHERS and next(_held(module, fixed=False), None) is not None:
        # A teacher, an average, a loss with a memory, or the model itself in an evaluation.
        _PROBE.others.append(_hash(_held(module, fixed=False)))


def _after_forward(_module: Any, arguments: Any, named: Any, _result: Any) -> None:
    if _compiling():
        return
    _PROBE.depth = max(0, _PROBE.depth - 1)
    torch = sys.modules["torch"]
    if _PROBE.depth == 0 and torch.is_grad_enabled():
        found = itertools.islice(_tensors((arguments, named)), _INPUTS)
        _PROBE.inputs = (_PROBE.inputs + [_input(*one) for one in found])[:_INPUTS]


def _parameters(optimizer: Any) -> list[Any]:
    return [one for group in optimizer.param_groups for one in group["params"]]


def _key(item: tuple[Any, Any]) -> str:
    return str(item[0])


def _state(optimizer: Any) -> tuple[str, list[str]]:
    """Return a hash of an optimizer's state, and its kinds of values; empty if it has none."""
    torch = sys.modules["torch"]
    digest = hashlib.blake2b(digest_size=8)
    kinds: dict[str, None] = {}
    for parameter in _parameters(optimizer):
        for key, value in sorted(optimizer.state.get(parameter, {}).items(), key=_key):
            digest.update(str(key).encode())
            if isinstance(value, torch.Tensor):
                kinds[f"{key}: {value.dtype}"] = None
                _add(digest, value)
            elif not callable(value):
                kinds[f"{key}: {type(value).__name__}"] = None
                digest.update(repr(value).encode()[:10_000])
    return (digest.hexdigest() if kinds else ""), list(kinds)


def _gradients(optimizer: Any) -> str:
    return _hash(one.grad for one in _parameters(optimizer) if one.grad is not None)


def _norm(optimizer: Any) -> float:
    """Return the length of the gradient; 0 where it is unknown."""
    found = [one.grad for one in _parameters(optimizer) if one.grad is not None]
    try:
        length = sum(float(one.detach().double().square().sum()) for one in found) ** 0.5
    except (RuntimeError, TypeError, NotImplementedError):
        return 0.0
    return length if length < float("inf") else 0.0


def _before_step(optimizer: Any, arguments: Any, named: Any) -> None:
    if _PROBE.before:
        return  # an optimizer within another
    if _PROBE.files is None:
        _PROBE.files = folder_files(_CHECKPOINTS)
    parameters = _parameters(optimizer)
    state, kinds = _state(optimizer)
    _PROBE.before = {
        "optimizer": id(optimizer),
        "before": _hash(parameters),
        "types": sorted({str(one.dtype) for one in parameters}),
        "state": state,
        "state_kinds": kinds,
        "rng_at_step": _random_states(),
        # A closure computes the gradients within the step.
        "grads": "" if len(arguments) > 1 or named else _gradients(optimizer),
        "lr": [float(group.get("lr", 0.0)) for group in optimizer.param_groups],
        "settings": _text_hash(repr([_settings(group) for group in optimizer.param_groups])),
    }


def _settings(group: Any) -> list[Any]:
    kinds = (int, float, str, bool, tuple)
    return sorted((k, v) for k, v in group.items() if k not in _RATES and isinstance(v, kinds))


_RATES = ("lr", "initial_lr", "momentum", "betas")


def _is_empty(optimizer: Any) -> bool:
    """Tell whether a step had no rate and no gradient: some libraries make a state by it."""
    if any(_PROBE.before["lr"]):
        return False
    return not any(one.grad is not None and one.grad.any() for one in _parameters(optimizer))


def _after_step(optimizer: Any, *_: Any) -> None:
    before = _PROBE.before
    if not before or before["optimizer"] != id(optimizer):
        return
    if _is_empty(optimizer):
        _PROBE.before = {}
        return
    if not any(one is optimizer for one in _PROBE.optimizers):
        _PROBE.optimizers.append(optimizer)
    number = next(k for k, one in enumerate(_PROBE.optimizers) if one is optimizer)
    note = dict(before, optimizer=number, after=_hash(_parameters(optimizer)))
    note.update(_PROBE.forward, inputs=_PROBE.inputs, scale=_PROBE.scale, time=time.time())
    note["others"] = _PROBE.others
    note["finite"] = all(bool(one.isfinite().all()) for one in _parameters(optimizer))
    files, known = folder_files(_CHECKPOINTS), _PROBE.files or {}
    changed = [name for name in files if files[name] != known.get(name)]
    note.update(folder=state_of_files(files), changed=changed, writes=_PROBE.writes)
    _PROBE.files, _PROBE.writes = files, 0
    note["grads"] = note["grads"] or _gradients(optimizer)
    note["norm"] = _norm(optimizer)
    note.setdefault("rng", _random_states())
    _PROBE.before, _PROBE.forward, _PROBE.inputs, _PROBE.others = {}, {}, [], []
    if _PROBE.steps == 0:
        _PROBE.write({"rank": _rank()})
    _PROBE.write(note)
    _PROBE.steps += 1
    _pause_at(_PROBE.steps, 0)


def _pause_at(step: int, write: int) -> None:
    """Wait at the place of the stop until the check says ``go``; not for ever, if it has gone."""
    if os.environ.get("WARREN_CHECK_PAUSE", "0:0") != f"{step}:{write}" or not step:
        return
    with open(f"{_FOLDER}/paused-{os.getpid()}", "w"):
        pass
    until = time.monotonic() + 20
    while not os.path.exists(f"{_FOLDER}/go") and time.monotonic() < until:
        time.sleep(0.001)


def _wrote(path: Any) -> None:
    """Count what comes before a change of the checkpoint folder, and what ends a save."""
    if isinstance(path, (str, os.PathLike)):
        full = os.path.abspath(os.fspath(path))
        if isinstance(full, str) and full.startswith(_CHECKPOINTS + os.sep) and _PROBE.steps:
            _PROBE.writes += 1
            _pause_at(_PROBE.steps, _PROBE.writes)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open":
        path, mode, flags = arguments
        if set(mode or "") & set("wax+") or (mode is None and flags & (os.O_WRONLY | os.O_RDWR)):
            _wrote(path)
    elif event == "os.rename":
        _wrote(arguments[1])


def _hook_saving(module: Any) -> None:
    original = module.save

    @functools.wraps(original)
    def save(obj: Any, f: Any, *arguments: Any, **named: Any) -> Any:
        found = original(obj, f, *arguments, **named)
        _wrote(f)
        return found

    module.save = save


def _harmless(hook: Any) -> Any:
    """Return a hook that never fails: the script goes on, with less evidence."""

    def call(*arguments: Any) -> None:
        try:
            hook(*arguments)
        except Exception as error:
            print(f"warren check: a step is not noted in full: {error!r}", file=sys.stderr)

    return call


def _hook_optimizers(module: Any) -> None:
    module.register_optimizer_step_pre_hook(_harmless(_before_step))
    module.register_optimizer_step_post_hook(_after_step)


def _hook_modules(module: Any) -> None:
    module.register_module_forward_pre_hook(_harmless(_before_forward))
    after = _harmless(_after_forward)
    module.register_module_forward_hook(after, with_kwargs=True, always_call=True)


def _hook_scaler(module: Any) -> None:
    original = module.GradScaler.step

    def step(self: Any, *arguments: Any, **named: Any) -> Any:
        scale = getattr(self, "_scale", None)
        _PROBE.scale = None if scale is None else float(scale)
        return original(self, *arguments, **named)

    module.GradScaler.step = step


_HOOKS = {
    "torch.serialization": _hook_saving,
    "torch.optim.optimizer": _hook_optimizers,
    "torch.nn.modules.module": _hook_modules,
    "torch.amp.grad_scaler": _hook_scaler,
}


class _Finder:
    """Calls a hook when a module of ``_HOOKS`` has been loaded."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        """Return the usual spec of a module, with a loader that calls the hook."""
        if name not in _HOOKS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        loader: Any = spec.loader
        usual = loader.exec_module

        def exec_module(module: Any) -> None:
            usual(module)
            try:
                _HOOKS[name](module)
            except Exception as error:  # an older PyTorch; the check goes on with less evidence
                print(f"warren check: {name} is not watched: {error!r}", file=sys.stderr)

        loader.exec_module = exec_module
        return spec


def _next_sitecustomize() -> None:
    """Run the file of this name that the interpreter would have found without this one."""
    sys.path[:] = [one for one in sys.path if os.path.abspath(one or ".") != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if _FOLDER and __name__ == "sitecustomize":
    sys.addaudithook(_audit)
    sys.meta_path.insert(0, _Finder())
    _next_sitecustomize()
