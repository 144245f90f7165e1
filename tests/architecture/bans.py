"""What a pure room may not touch, read from the syntax tree; each ban names its replacement.

The reader knows names bound by imports, names and fields declared or assigned as sets, and
method names. It does not follow values through calls: it catches the slip, not the intent.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Final

import house
from house import FACE, ROOMS, Module, words

PURE_ROOMS: Final = frozenset(ROOMS) - {"live", "store", "runs", "serve", "cli"} | {FACE}
PURE_FOLDERS: Final = words(
    "warren.serve.records warren.serve.queue warren.serve.schedule warren.serve.forecast"
)
"""Folders of rooms that are not pure as a whole."""

CLOCK: Final = "a time_ns from the events or the view; measuring is done in runs or live"
CHANCE: Final = "numpy.random.Generator(PCG64(seed)), or a hash of integers (decision 0006)"
OUTSIDE: Final = "text or bytes as an argument, or a read: Callable[[str], bytes]; see store"
SHOW: Final = "a returned value; cli prints"
ORDER: Final = "sorted(...), or a dict or tuple, which keep their order"
ALONE: Final = "one plain call after another; processes and threads live in live"
FIXED: Final = "hashlib or zlib.crc32 over bytes, or an index: the same in every process"

BANNED_MODULES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("time", "sched"), CLOCK),
    **dict.fromkeys(("secrets", "uuid"), CHANCE),
    **dict.fromkeys(
        words("socket ssl http urllib requests shutil tempfile glob fileinput sqlite3 mmap"),
        OUTSIDE,
    ),
    **dict.fromkeys(
        words("subprocess multiprocessing threading asyncio concurrent signal atexit"),
        ALONE,
    ),
    **dict.fromkeys(("logging", "pprint"), SHOW),
}
BANNED_NAMES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("open", "input", "breakpoint"), OUTSIDE),
    "print": SHOW,
    **dict.fromkeys(("hash", "id"), FIXED),
    **dict.fromkeys(("eval", "exec"), "a table of functions"),
}
BANNED_DOTTED: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "datetime.datetime.now",
            "datetime.datetime.utcnow",
            "datetime.datetime.today",
            "datetime.date.today",
        ),
        CLOCK,
    ),
    **dict.fromkeys(("io.open", "codecs.open", "pkgutil.get_data"), OUTSIDE),
    **dict.fromkeys(("sys.stdin", "sys.argv"), OUTSIDE),
    **dict.fromkeys(("sys.stdout", "sys.stderr"), SHOW),
    "sys.exit": "an error from model.errors; cli turns it into an exit code",
}
BANNED_METHODS: Final[Mapping[str, str]] = dict.fromkeys(
    words(
        "read_text read_bytes write_text write_bytes mkdir rmdir unlink touch iterdir rglob exists "
        "is_file is_dir expanduser tofile"
    ),
    OUTSIDE,
)
SEEDED: Final = words("Generator PCG64 Philox SeedSequence default_rng")
ORDER_BLIND: Final = words("sorted set frozenset len min max any all bool")
SET_METHODS: Final = words("union intersection difference symmetric_difference")
SET_TYPES: Final = frozenset({"set", "frozenset", "Set", "AbstractSet", "MutableSet"})
TAKES_ORDER: Final = words("list tuple iter enumerate map filter zip join fromiter")


def broken_bans(module: Module) -> Iterator[str]:
    """One line for each thing a pure room may not touch."""
    in_pure_folder = module.name.startswith(tuple(f"{one}." for one in PURE_FOLDERS))
    if module.room not in PURE_ROOMS and not in_pure_folder:
        return
    origin = _origins(module)
    checks = (_banned_modules(module), _banned_references(module, origin), _unordered(module))
    for line, what, instead in sorted(hit for check in checks for hit in check):
        yield f"{module.name}:{line}: {what} is banned here; use {instead}"


Hit = tuple[int, str, str]


def _banned_modules(module: Module) -> Iterator[Hit]:
    for imported in house.imports(module):
        library = imported.module.partition(".")[0]
        if library in BANNED_MODULES:
            yield imported.line, imported.module, BANNED_MODULES[library]


def _origins(module: Module) -> dict[str, str]:
    """Local name to the dotted name it was imported as."""
    origin: dict[str, str] = {}
    for node in house.nodes(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                origin[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                origin[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return origin


def _banned_references(module: Module, origin: Mapping[str, str]) -> Iterator[Hit]:
    called = {
        id(node.func): node for node in house.nodes(module.tree) if isinstance(node, ast.Call)
    }
    for node in house.nodes(module.tree):
        if not isinstance(node, ast.Name | ast.Attribute):
            continue
        dotted = _dotted(node, origin)
        instead = _instead(dotted, called.get(id(node)))
        if instead is None and isinstance(node, ast.Attribute) and id(node) in called:
            instead = BANNED_METHODS.get(node.attr)
        if instead is None and isinstance(node, ast.Name) and node.id not in origin:
            instead = BANNED_NAMES.get(node.id) if isinstance(node.ctx, ast.Load) else None
        if instead is not None:
            yield node.lineno, dotted or ast.unparse(node), instead


def _dotted(node: ast.expr, origin: Mapping[str, str]) -> str:
    """Where an expression was imported from; empty if it was not."""
    if isinstance(node, ast.Name):
        return origin.get(node.id, "")
    if isinstance(node, ast.Attribute):
        base = _dotted(node.value, origin)
        return f"{base}.{node.attr}" if base else ""
    return ""


def _instead(dotted: str, call: ast.Call | None) -> str | None:
    """What to use instead of an imported name, or None if it may be used."""
    if dotted in BANNED_DOTTED:
        return BANNED_DOTTED[dotted]
    if dotted.startswith("os.") and not dotted.startswith(("os.path.", "os.PathLike", "os.fspath")):
        return None if dotted == "os.path" else OUTSIDE
    library, _, name = dotted.rpartition(".")
    if library == "random":
        return None if name == "Random" and _has_seed(call) else CHANCE
    if library == "numpy.random":
        return None if name in SEEDED and (call is None or _has_seed(call)) else CHANCE
    return None


def _has_seed(call: ast.Call | None) -> bool:
    return call is not None and bool(call.args or call.keywords)


def _unordered(module: Module) -> Iterator[Hit]:
    fields = _set_fields(module)
    for own, names in _scopes(module, fields):
        for node in own:
            for iterated in _iterated(node):
                if _is_set(iterated, names, fields):
                    yield iterated.lineno, "iterating over a set", ORDER


def _set_fields(module: Module) -> frozenset[str]:
    """Attributes declared as sets by some class of this file."""
    return frozenset(
        node.target.id
        for cls in house.nodes(module.tree)
        if isinstance(cls, ast.ClassDef)
        for node in cls.body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and _is_set_type(node.annotation)
    )


def _scopes(
    module: Module, fields: frozenset[str]
) -> Iterator[tuple[list[ast.AST], frozenset[str]]]:
    """The nodes of each function, and of the module, with the names that can only be sets in it."""
    for scope in house.nodes(module.tree):
        if isinstance(scope, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef):
            own = _own_nodes(scope)
            yield own, frozenset(_set_names(scope, own, fields))


def _set_names(scope: ast.AST, own: list[ast.AST], fields: frozenset[str]) -> set[str]:
    is_set: dict[str, bool] = {}
    if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
        arguments = (*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs)
        is_set.update((one.arg, _is_set_type(one.annotation)) for one in arguments)
    for node in own:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            is_set[node.target.id] = _is_set_type(node.annotation)
        elif isinstance(node, ast.Assign):
            known = {name for name, yes in is_set.items() if yes}
            for target in node.targets:
                if isinstance(target, ast.Name):
                    value = _is_set(node.value, known, fields)
                    is_set[target.id] = value and is_set.get(target.id, True)
    return {name for name, yes in is_set.items() if yes}


def _own_nodes(scope: ast.AST) -> list[ast.AST]:
    """Nodes of a scope without those of functions inside it, in source order."""
    found: list[ast.AST] = []
    todo = [*ast.iter_child_nodes(scope)][::-1]
    while todo:
        node = todo.pop()
        found.append(node)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            todo += [*ast.iter_child_nodes(node)][::-1]
    return found


def _is_set_type(annotation: ast.expr | None) -> bool:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    if isinstance(annotation, ast.Subscript):
        annotation = annotation.value
    name = getattr(annotation, "attr", None) or getattr(annotation, "id", None)
    return name in SET_TYPES


def _is_set(node: ast.expr, names: frozenset[str] | set[str], fields: frozenset[str]) -> bool:
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Name(id=name):
            return name in names
        case ast.Attribute(attr=attr):
            return attr in fields
        case ast.Call(func=ast.Name(id=name)):
            return name in ("set", "frozenset")
        case ast.Call(func=ast.Attribute(attr=attr, value=owner)):
            return attr in SET_METHODS or (attr == "copy" and _is_set(owner, names, fields))
        case ast.BinOp(left=left, op=ast.Sub() | ast.BitOr() | ast.BitAnd() | ast.BitXor()):
            return _is_set(left, names, fields)
        case ast.IfExp(body=body, orelse=orelse):
            return _is_set(body, names, fields) or _is_set(orelse, names, fields)
        case _:
            return False


def _iterated(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions whose order a node brings to light."""
    match node:
        case ast.For(iter=iterable) | ast.AsyncFor(iter=iterable):
            yield iterable
        case ast.ListComp(generators=generators) | ast.DictComp(generators=generators):
            yield from (one.iter for one in generators)
        case ast.Call(func=ast.Name(id=name), args=args):
            yield from _arguments(name, args)
        case ast.Call(func=ast.Attribute(attr="pop", value=owner), args=[]):
            yield owner
        case ast.Call(func=ast.Attribute(attr=name), args=args):
            yield from args if name in TAKES_ORDER or name == "extend" else ()
        case ast.Starred(value=value) | ast.YieldFrom(value=value):
            yield value
        case ast.Assign(targets=[ast.Tuple() | ast.List()], value=value):
            yield value
        case _:
            pass


def _arguments(name: str, args: list[ast.expr]) -> Iterator[ast.expr]:
    if name in TAKES_ORDER:
        yield from args
    elif name not in ORDER_BLIND:
        generators = (arg for arg in args if isinstance(arg, ast.GeneratorExp))
        yield from (one.iter for arg in generators for one in arg.generators)
