"""Compiling of the hot loops, and loading of their machine code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, Final

import numpy as np

from warren.solve.common.compile_listeners import (
    BEGUN_OR_DONE,
    KERNELS,
    NOT_KEPT,
    tell_listeners,
)


@contextmanager
def _hidden(module: str) -> Iterator[None]:
    """Make an import of this module fail meanwhile, as if it were not installed."""
    if module in sys.modules:
        yield
        return
    # An entry of None makes the import system raise ``ModuleNotFoundError``.
    sys.modules[module] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[module]


with _hidden("scipy"):  # numba looks at its version only
    from llvmlite.binding import parse_bitcode  # type: ignore[import-untyped]
    from numba import njit, types
    from numba.core import event
    from numba.core.caching import CompileResultCacheImpl, FunctionCache
    from numba.core.codegen import JITCodeLibrary
    from numba.core.typing.typeof import typeof_impl
    from numba.np.numpy_support import from_dtype, map_layout


class _Library(JITCodeLibrary):
    """Machine code of a kernel, from disk.

    The bitcode beside it is needed only where another kernel is linked with this one, and is not
    parsed until then.
    """

    bitcode = b""

    @classmethod
    def _unserialize(cls, codegen: Any, state: Any) -> _Library:
        """Load the machine code; keep the bitcode as bytes, where numba parses it at once."""
        name, _, (machine_code, bitcode) = state
        library = cls(codegen, name)
        library.enable_object_caching()  # type: ignore[no-untyped-call]
        library._set_compiled_object(machine_code)  # type: ignore[no-untyped-call]
        library._finalize_final_module()  # type: ignore[no-untyped-call]
        library.bitcode = bitcode
        return library

    def _get_module_for_linking(self) -> Any:
        """Return the kernel's LLVM module, parsed on the first call."""
        if self._shared_module is None:
            self._shared_module = parse_bitcode(self.bitcode)
        return self._shared_module


class _Loader(CompileResultCacheImpl):
    """The loader that makes a kernel of its files on disk.

    numba parses all bitcode at once, to learn which symbols there are. That takes half of the
    time to load a kernel; a call of it needs two symbols only, whose names are stored beside it.
    """

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        """Rebuild a kernel with ``_Library`` in the place of numba's own class for it."""
        codegen, symbols = target_context.codegen(), payload[1]
        codegen._engine._defined_symbols.update(self.names(symbols))
        # numba asks the code generator for the class, so it is exchanged for the time of the call.
        codegen._library_class, usual = _Library, codegen._library_class
        try:
            return super().rebuild(target_context, payload)  # type: ignore[no-untyped-call]
        finally:
            codegen._library_class = usual

    @staticmethod
    def names(symbols: Any) -> tuple[str, ...]:
        """Return the symbols that a call of the kernel needs."""
        return symbols.llvm_func_name, symbols.llvm_cpython_wrapper_name


class _InnerLoader(_Loader):
    """The loader of a kernel as other kernels call it, which has no entry for Python."""

    @staticmethod
    def names(symbols: Any) -> tuple[str, ...]:
        """Return the symbol that a call of the kernel needs."""
        return (symbols.llvm_func_name,)


class _MachineCode(FunctionCache):
    """The machine code of one kernel on disk, by the types of its arguments.

    Before numba looks for machine code on disk it gets everything ready for compiling (its tables
    of all functions that it knows). That takes a quarter of a short run, and code that is found
    needs none of it; where none is found, the compiler does it. Most kernels are called by other
    kernels only, so the folder is first looked at when Python calls one.
    """

    def __init__(self, function: Any, *, is_inner: bool = False) -> None:
        self._function, self._is_open, self._has_folder = function, False, True
        self._impl_class = _InnerLoader if is_inner else _Loader

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return the kernel compiled for these types, or None after getting ready to compile."""
        if not self._is_open:
            self._open()
        found = None
        if self._has_folder:
            with self._guard_against_spurious_io_errors():
                found = self._known(signature, target)
        if found is None:
            _get_ready_to_compile()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep machine code, if there is a folder for it."""
        if self._has_folder:
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]

    def _open(self) -> None:
        """Find the folder: beside the source, or numba's own of the user."""
        self._is_open = True
        try:
            super().__init__(self._function)  # type: ignore[no-untyped-call]
        except RuntimeError:  # neither can be written
            self._has_folder = False
            NOT_KEPT.append(self._function.__qualname__)
            return
        # Machine code counts as old once any file of kernels has changed, not only this one.
        self._cache_file._source_stamp = (self._cache_file._source_stamp, _sources())

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        """Return numba's key, and whether there is an entry for Python."""
        key = super()._index_key(sig, codegen)  # type: ignore[no-untyped-call]
        return (*key, self._impl_class.__name__)

    def _known(self, signature: Any, target: Any) -> Any:
        """Return the kernel on disk for these types, or None.

        All of the kernel's files are forgotten if they name a class that this version of the
        project does not have.
        """
        try:
            return self._load_overload(signature, target)  # type: ignore[no-untyped-call]
        except (AttributeError, ImportError):
            self._cache_file.flush()  # type: ignore[no-untyped-call]
            return None


@lru_cache(maxsize=1)
def _sources() -> tuple[tuple[str, Any], ...]:
    """Return name, time and size of each file of kernels.

    numba checks the file of the kernel that is called only. The kernels that it calls are in its
    machine code too, so their files count as much.
    """
    import warren.solve

    found = []
    for finder, name, _ in walk_packages(warren.solve.__path__, "warren.solve."):
        spec: Any = finder.find_spec(name, None)
        found.append((name, tuple(sorted(spec.loader.path_stats(spec.origin).items()))))
    return tuple(sorted(found))


_usual_type_of: Final[Any] = typeof_impl.dispatch(np.ndarray)


@typeof_impl.register(np.ndarray)
def _type_of(value: Any, context: Any) -> Any:
    """Return numba's type of an array.

    numba asks of each array whether it is a masked one: numpy then loads its package for these,
    which takes as long as to load three kernels. Plain arrays are typed here without asking.
    """
    # Bool, int, unsigned int and float of this machine's byte order: all that kernels take.
    plain = type(value) is np.ndarray and value.dtype.kind in "biuf" and value.dtype.isnative
    if not plain:
        return _usual_type_of(value, context)
    dtype, layout = from_dtype(value.dtype), map_layout(value)
    return types.Array(dtype, value.ndim, layout, readonly=not value.flags.writeable)


def _nothing() -> None:
    """Do nothing, in the place of the hook that numba calls before it loads or compiles a kernel.

    numba's own looks for extensions that bring types of arguments from other packages; those of a
    kernel are arrays and numbers.
    """


def _get_ready_to_compile() -> None:
    """Load the part of numba that looks for a BLAS, as if there were none.

    Otherwise it would load all of ``scipy.linalg``, which takes longer than the rest of numba. No
    kernel asks for linear algebra; numba's own covariances in the same process are summed by a
    loop.
    """
    tell_listeners()
    with _hidden("scipy.linalg"):
        import_module("numba.np.arraymath")


class _Events(event.Listener):
    """Hands on numba's events of compiling."""

    def on_start(self, told: Any) -> None:
        """Hand on that a function begins to be compiled."""
        self._hand_on(told, done=False)

    def on_end(self, told: Any) -> None:
        """Hand on that a function is compiled, or cannot be."""
        self._hand_on(told, done=True)

    @staticmethod
    def _hand_on(told: Any, *, done: bool) -> None:
        own = str(told.data["dispatcher"].py_func.__module__).startswith("warren.")
        for listener in BEGUN_OR_DONE:
            listener(done, own)


event.register("numba:compile", _Events())  # type: ignore[no-untyped-call]


# nogil: Python's other threads go on while a kernel runs. error_model "numpy": no check for a zero
# divisor. _nrt: numba's memory runtime; ``kernel`` says why there is none. no_cfunc_wrapper: no
# second entry beside that for Python, for callers that have a kernel's address only; there are
# none.
_OPTIONS: Final[Any] = {
    "nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True
}  # fmt: skip


def _compiled(**options: Any) -> Callable[[Any], Any]:
    """Return a decorator that makes kernels with these options of numba beside the common ones."""

    def kernel(function: Any) -> Any:
        KERNELS.append(function.__qualname__)
        made = _dispatcher(function, options)
        # If NUMBA_DISABLE_JIT is set, numba gives the function itself back.
        if made is not function:
            inner = cache(lambda: _dispatcher(function, options, is_inner=True))
            _let_kernels_call(made, inner)
        return made

    return kernel


def _dispatcher(function: Any, options: dict[str, Any], *, is_inner: bool = False) -> Any:
    """Return a dispatcher that compiles a kernel by the types of its arguments."""
    given: Any = {**_OPTIONS, **options, "no_cpython_wrapper": is_inner}
    made: Any = njit(**given)(function)
    if made is not function:
        made._cache = _MachineCode(function, is_inner=is_inner)
        made._compilation_chain_init_hook = _nothing
    return made


def _let_kernels_call(made: Any, inner: Callable[[], Any]) -> None:
    """Make kernels that call ``made`` link with ``inner``, the same without an entry for Python.

    The entry takes a third of the time to compile a kernel, and most are called by kernels only.

    numba takes an integer that stands in the source for a type of its own: a kernel would be
    compiled once for each such number, and once more for numbers that are computed. Here it is
    not. Yes and no stay types of their own: by them a kernel is one of two that differ in their
    hot loops.
    """

    def template_of(args: Any, kws: Any) -> Any:
        plain = {name: _plain(one) for name, one in kws.items()}
        return inner().get_call_template(tuple(map(_plain, args)), plain)

    made.get_call_template = template_of
    made.get_overload = lambda types_of: inner().get_overload(types_of)


def _plain(kind: Any) -> Any:
    """Return the type of an integer without its value."""
    has_value = isinstance(kind, types.IntegerLiteral)
    return types.unliteral(kind) if has_value else kind  # type: ignore[no-untyped-call]


kernel: Final[Any] = _compiled()
"""Kernels work on arrays that their caller owns and never allocate. Without numba's memory
runtime no array is counted when a tuple of arrays is handed on: half the time to compile and to
run. Integer division by zero is undefined under this error model; no kernel divides by input."""
inlined: Final[Any] = _compiled(forceinline=True)
"""A kernel that is inlined where it is called: for small functions of a hot loop that take tuples
of arrays. Handed on to a function that is not inlined, these are some hundred words, which costs
more than many a function does."""
