"""Read all checkpoints of a folder and print a description of each value, without running code.

    python read_checkpoints.py FOLDER...

It runs in the interpreter of the checked command, since only that one has its libraries. It prints
a JSON list, with an entry a folder: an object of entries by file. A pickled object of an unknown
class becomes its contents: only classes of tensors and arrays are made.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import io
import json
import os
import pickle
import sys
import types
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

_PLAIN = {
    ("collections", "OrderedDict"),
    ("collections", "defaultdict"),
    ("collections", "Counter"),
    ("collections", "deque"),
    ("builtins", "set"),
    ("builtins", "frozenset"),
    ("builtins", "complex"),
    ("builtins", "bytearray"),
    ("builtins", "slice"),
    ("builtins", "range"),
    ("builtins", "dict"),
    ("builtins", "list"),
    ("builtins", "int"),
    ("builtins", "float"),
    ("_codecs", "encode"),
    ("joblib.numpy_pickle", "NumpyArrayWrapper"),
}
_NUMPY = {"_reconstruct", "ndarray", "dtype", "scalar", "_frombuffer"}
_ZLIB = ("x\x01", "x^", "x\x9c", "x\xda")
"""First bytes of compressed data."""
_FEW = 50
"""Most numbers of a list that are described one by one."""


class _Unknown:
    """An object of a class that is not loaded: what it was made of, and its attributes."""

    def __new__(cls, *made_of: Any, **_: Any) -> _Unknown:
        """Make it, also where ``__init__`` is not called."""
        made = super().__new__(cls)
        made.contents = list(made_of)
        return made

    contents: list[Any]

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        self.contents.append(state)

    def __call__(self, *made_of: Any) -> _Unknown:
        return _Unknown(*made_of)

    def append(self, item: Any) -> None:
        """Keep an item of a class that is a kind of list."""
        self.contents.append(item)

    def extend(self, items: Any) -> None:
        """Keep items of a class that is a kind of list."""
        self.contents.extend(items)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.contents.append({key: value})


def _find_class(self: Any, module: str, name: str) -> Any:
    """Return a class of tensors or arrays; a stand-in for any other."""
    known = (
        (module, name) in _PLAIN
        or (module.split(".")[0] == "numpy" and (name in _NUMPY or module == "numpy.dtypes"))
        or (module == "torch._utils" and name.startswith("_rebuild"))
        or (module == "torch" and (name.endswith("Storage") or name in ("Size", "device")))
        or (module == "torch" and name in ("Tensor", "dtype", *_torch_types()))
        or (module == "torch.storage" and name.endswith("Storage"))
        or (module == "torch.serialization" and name == "_get_layout")
        or (module, name) == ("torch.nn.parameter", "Parameter")
    )
    if (module, name) == ("torch.storage", "_load_from_bytes"):
        return _tensor_of_bytes
    if known:
        return pickle.Unpickler.find_class(self, module, name)
    return type(name, (_Unknown,), {})


def _tensor_of_bytes(data: bytes) -> Any:
    """Return a tensor that was pickled without ``torch.save``."""
    return importlib.import_module("torch").load(io.BytesIO(data), weights_only=True)


def _torch_types() -> list[str]:
    torch = sys.modules.get("torch")
    if torch is None:
        return []
    return [name for name in dir(torch) if isinstance(getattr(torch, name), torch.dtype)]


class _Unpickler(pickle.Unpickler):
    find_class = _find_class


_SAFE_PICKLE = types.ModuleType("safe_pickle")
vars(_SAFE_PICKLE).update(vars(pickle))
vars(_SAFE_PICKLE).update(
    Unpickler=_Unpickler, load=lambda file, **named: _Unpickler(file, **named).load()
)


def _torch_file(path: str) -> Any:
    torch = importlib.import_module("torch")
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        return torch.load(path, map_location="cpu", weights_only=False, pickle_module=_SAFE_PICKLE)


def _dcp_folder(path: str) -> Any:
    importlib.import_module("torch")
    checkpoint = importlib.import_module("torch.distributed.checkpoint")
    loading = importlib.import_module("torch.distributed.checkpoint.state_dict_loader")
    planner = importlib.import_module("torch.distributed.checkpoint.default_planner")
    state: dict[str, Any] = {}
    loading._load_state_dict(
        state,
        storage_reader=checkpoint.FileSystemReader(path),
        planner=planner._EmptyStateDictLoadPlanner(),
        no_dist=True,
    )
    return state


def _safetensors_file(path: str) -> Any:
    with importlib.import_module("safetensors").safe_open(path, framework="pt") as file:
        found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        extra = file.metadata() or {}
    return {**found, **{f"metadata.{name}": value for name, value in sorted(extra.items())}}


def _numpy_file(path: str) -> Any:
    numpy = importlib.import_module("numpy")
    with open(path, "rb") as file:
        head = file.read(6)
    if head == b"\x93NUMPY":
        return numpy.load(path, allow_pickle=False)
    found = {}
    with numpy.load(path, allow_pickle=False) as arrays:
        for name in arrays.files:
            try:
                found[name] = arrays[name]
            except ValueError:  # an array of objects
                with zipfile.ZipFile(path) as archive:
                    found[name] = archive.read(f"{name}.npy")
    return found


def _pickle_file(path: str) -> Any:
    with open(path, "rb") as file:
        try:
            return _Unpickler(file).load()
        except Exception:
            if "joblib" not in _head(path, 4096):
                raise
    return _joblib_file(path)


def _find_class_of_joblib(self: Any, module: str, name: str) -> Any:
    if module == "joblib.numpy_pickle":
        return getattr(importlib.import_module(module), name)
    return _find_class(_Unpickler.__new__(_Unpickler), module, name)


def _head(path: str, count: int) -> str:
    with open(path, "rb") as file:
        return file.read(count).decode("latin-1")


def _json_file(path: str) -> Any:
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def _reader(path: str) -> Any:
    """Return the function that reads a file, by its first bytes; None if it is no checkpoint."""
    lower = path.lower()
    head = _head(path, 4096)
    if lower.endswith(".safetensors"):
        return _safetensors_file
    if lower.endswith(".json"):
        return _json_file
    if lower.endswith((".npz", ".npy")) or head.startswith("\x93NUMPY"):
        return _numpy_file
    if head.startswith("PK\3\4"):
        return _numpy_file if ".npy" in head[:200] else _torch_file
    zipped = head.startswith(("\x1f\x8b", "BZh", "\xfd7zXZ")) or head[:2] in _ZLIB
    if lower.endswith(".joblib") or zipped:
        return _joblib_file if importlib.util.find_spec("joblib") else None
    if head.startswith("\x80"):
        # The old format of PyTorch is a sequence of pickles, of which the first is its mark.
        return _torch_file if "\x6c\xfc\x9c\x46" in head[:40] else _pickle_file
    if lower.endswith((".pt", ".pth", ".ckpt", ".bin", ".pkl", ".pickle")):
        return _torch_file
    return None


def _joblib_file(path: str) -> Any:
    joblib = importlib.import_module("joblib.numpy_pickle")
    joblib.NumpyUnpickler.find_class = _find_class_of_joblib
    return joblib.load(path)


def _described(value: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, list[Any]]]:
    """Yield name and description of each value: kind, shape, and hash or the value itself."""
    if hasattr(value, "detach"):
        yield name, _tensor(value)
    elif hasattr(value, "tobytes") and hasattr(value, "dtype"):
        shape = list(getattr(value, "shape", ()))
        yield name, ["array " + str(value.dtype), shape, _hash(value.tobytes())]
    elif isinstance(value, (bytes, bytearray)):
        yield name, ["bytes", [len(value)], _hash(bytes(value))]
    elif value is None or isinstance(value, (bool, int, float, str)):
        yield name, [type(value).__name__, [], value if value == value else "nan"]
    elif depth > 40:
        return
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from _described(one, f"{name}.{key}" if name else str(key), depth + 1)
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from _described_list(value, name, depth)
    elif isinstance(value, _Unknown):
        yield from _described_list(value.contents, name, depth)
    elif hasattr(value, "__iter__") and not isinstance(value, type):
        yield from _described_list(list(value), name, depth)


def _described_list(value: Any, name: str, depth: int) -> Iterator[tuple[str, list[Any]]]:
    values = sorted(value, key=repr) if isinstance(value, (set, frozenset)) else list(value)
    if len(values) > _FEW and all(isinstance(one, (int, float)) for one in values):
        yield name, ["numbers", [len(values)], _hash(repr(values).encode())]
        return
    for index, one in enumerate(values):
        yield from _described(one, f"{name}.{index}" if name else str(index), depth + 1)


def _tensor(value: Any) -> list[Any]:
    torch = importlib.import_module("torch")
    value = value.detach()
    shape, kind = list(value.shape), str(value.dtype)
    if value.layout != torch.strided:
        value = value.to_dense()
    if value.is_quantized:
        value = value.int_repr()
    data = value.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return [kind, shape, _hash(data)]


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=12).hexdigest()


def _entry(path: str, reader: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"written": _written(path), "format": reader.__name__.strip("_")}
    try:
        found["values"] = dict(_described(reader(path)))
    except FileNotFoundError:
        return {}
    except BaseException as error:
        found["error"] = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return found


def _written(path: str) -> float:
    names = [path] + [os.path.join(path, one) for one in (os.listdir(path) if _is(path) else ())]
    return max(os.stat(one).st_mtime for one in names if not _is(one))


def _is(path: str) -> bool:
    return os.path.isdir(path)


def described(folder: str) -> dict[str, Any]:
    """Return the entries of a folder, by the name of the file or folder in it."""
    found: dict[str, Any] = {}
    for base, folders, names in os.walk(folder):
        folders.sort()
        if ".metadata" in names or any(one.endswith(".distcp") for one in names):
            inner = os.path.relpath(base, folder)
            found[inner] = (
                _entry(base, _dcp_folder)
                if ".metadata" in names
                else {"written": _written(base), "format": "dcp_folder", "error": "no .metadata"}
            )
            names = [one for one in names if not one.endswith((".distcp", ".metadata"))]
        for name in sorted(names):
            path = os.path.join(base, name)
            try:
                reader = _reader(path) if os.path.isfile(path) else None
            except FileNotFoundError:
                continue
            if reader is not None:
                found[os.path.relpath(path, folder)] = _entry(path, reader)
    return {name: entry for name, entry in found.items() if entry}


def main() -> None:
    """Print the description of each folder of the command line."""
    warnings.simplefilter("ignore")
    answer = os.dup(1)
    os.dup2(2, 1)  # what a library prints is no answer
    text = json.dumps([described(folder) for folder in sys.argv[1:]], default=repr)
    with os.fdopen(answer, "w") as file:
        file.write(text)


if __name__ == "__main__":
    main()
