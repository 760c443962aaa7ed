"""What a Python function is: the same digest in every run of a program, another one once it would do something else.

A function is its qualified name, its bytecode with its constants, its defaults and closures, and all globals that it
refers to, recursively through the user's own modules. What comes from installed packages counts by its name there, and
the packages by their versions. Line numbers, paths, docstrings and annotations do not count, nor do the bytes that
pickle makes of it, which differ from run to run.
"""

from __future__ import annotations

import base64
import copyreg
import dis
import functools
import hashlib
import importlib
import importlib.metadata
import sys
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from penstock import _versions
from penstock._op_call import Entry
from penstock._values import Message
from penstock.errors import SpecError

# What differs between equal classes, or is of no account.
_OF_CLASSES = {
    "__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__annotate__", "__annotate_func__",
    "__annotations_cache__", "__firstlineno__", "__static_attributes__", "__dataclass_fields__", "_abc_impl",
}  # fmt: skip
_OF_BODIES = {"__doc__", "__firstlineno__", "__static_attributes__"}  # constants that a class body stores
_OF_MODULES = {
    "__file__",
    "__name__",
    "__path__",
    "__spec__",
    "__loader__",
    "__package__",
    "__cached__",
    "__builtins__",
}
_LOADS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}


def of(functions: Sequence[tuple[str, Entry]]) -> Message:
    """A message Code of the spec, of functions with their names, by their index."""
    found = [_identified(name, entry) for name, entry in functions]
    distributions = {distribution(top) for each in found for top in each.libraries}
    return message(distributions, [(each.name, each.digest) for each in found])


def message(distributions: Iterable[str], functions: Sequence[tuple[str, bytes]]) -> Message:
    """A message Code of functions with their digests, which import these distributions."""
    python, packages = _versions.python(), sorted(distributions)
    whole = mark("code", python, *packages, *(digest for _, digest in functions))
    return {
        "digest": _text(whole), "python": python, "distributions": packages,
        "functions": [{"name": name, "digest": _text(digest)} for name, digest in functions],
    }  # fmt: skip


class _Identified(NamedTuple):
    name: str
    digest: bytes
    libraries: set[str]


def _identified(name: str, entry: Entry) -> _Identified:
    walk = _Walk(name)
    try:
        given = [("its args=", tuple(entry.get("args", ()))), ("its kwargs=", dict(entry.get("kwargs", {})))]
        parts = [walk.of(entry["call"]), *(walk.at(where, value) for where, value in given)]
    except RecursionError:
        raise SpecError(f"{name}: what it refers to is nested too deeply to be compared; {_INSTEAD}") from None
    return _Identified(name, mark("function", *parts), walk.libraries)


def _text(digest: bytes) -> str:
    return base64.b64encode(digest).decode()


def mark(kind: str, *parts: bytes | str) -> bytes:
    """A digest of parts in their order. Different parts have different ones."""
    digest = hashlib.sha256(kind.encode())
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.digest()


_INSTEAD = (
    "make it in the __init__ of a class, which each process makes once, from what args= gives it (a path, a name, "
    "numbers), or inside the function"
)


class _Walk:
    """A way through all that one function refers to."""

    def __init__(self, name: str) -> None:
        self.libraries: set[str] = set()  # their top-level modules
        self._op = name
        self._where: list[str] = []  # how the value that is looked at was come to
        self._names: frozenset[str] = frozenset()  # that the function that is looked at has: of modules, these count
        self._done: dict[int, bytes] = {}
        self._open: dict[int, int] = {}  # those that are looked at now, by id, in their order
        self._kept: list[Any] = []  # so that an id stays that of one object

    def at(self, where: str, value: Any) -> bytes:
        """The digest of a value that is found there."""
        self._where.append(where)
        digest = self.of(value)
        self._where.pop()
        return digest

    def of(self, value: Any) -> bytes:
        """The digest of a value. One that refers to itself has the place of that in it."""
        plain = _plain(value)
        if plain is not None:
            return plain
        key = id(value)
        if key in self._done:
            return self._done[key]
        if key in self._open:
            return mark("above", str(self._open[key]))
        self._kept.append(value)
        self._open[key] = len(self._open)
        digest = self._whole(value)
        del self._open[key]
        if not isinstance(value, types.ModuleType):  # what counts of it is another function's matter
            self._done[key] = digest
        return digest

    def _whole(self, value: Any) -> bytes:
        kind = type(value)
        if kind in (tuple, list):
            return mark(kind.__name__, *map(self.of, value))
        if kind in (set, frozenset):
            return mark(kind.__name__, *sorted(map(self.of, value)))
        if kind in (dict, types.MappingProxyType):
            return mark("dict", *(self.of(part) for item in value.items() for part in item))
        if isinstance(value, types.ModuleType):
            return self._module(value)
        if isinstance(value, types.CodeType):
            return self._code(value)
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, np.ndarray) and value.dtype.hasobject:
            return mark("objects", repr(value.shape), self.of(value.dtype), self.of(value.reshape(-1).tolist()))
        content = _content(value)
        return self._other(value) if content is None else content

    def _module(self, module: types.ModuleType) -> bytes:
        name = module.__name__
        if origin(name) != "user":
            return self._name(name, "")
        named = [n for n in sorted(self._names - _OF_MODULES) if n in vars(module)]
        return mark("module", name, *(part for n in named for part in (n, self.at(f"{name}.{n}", vars(module)[n]))))

    def _name(self, module: str, name: str) -> bytes:
        """What an installed package has under this name."""
        if origin(module) == "library":
            self.libraries.add(module.partition(".")[0])
        return mark("name", module, name)

    def _function(self, function: types.FunctionType) -> bytes:
        module, name = function.__module__ or "", function.__qualname__
        if not is_by_value(function):
            return self._name(module, name)
        code, outside = function.__code__, self._names
        self._names = frozenset(_names(code))
        self._where.append(function.__name__)
        package = function.__globals__.get("__package__") or ""
        parts = [mark("qualname", name), self._code(code), *self._imports(code, package)]
        parts += [self.of(function.__defaults__), self.of(function.__kwdefaults__)]
        for free, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            parts.append(b"" if _is_empty(cell) else self.at(f"{free} of its closure", cell.cell_contents))
        known = function.__globals__
        for each in sorted(set(_loaded(code)) - _OF_MODULES):
            if each in known:
                parts += [each.encode(), self.at(f"the global {each}", known[each])]
        self._where.pop()
        self._names = outside
        return mark("function", *parts)

    def _code(self, code: types.CodeType) -> bytes:
        parts = [code.co_name, *(",".join(n) for n in (code.co_varnames, code.co_freevars, code.co_cellvars))]
        parts += [",".join(code.co_names), repr((code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount))]
        flags = code.co_flags & 0xFFFFFF  # those above tell of docstrings, too
        steps = [part for step in _steps(code) for part in (step.opname.encode(), self._argument(step))]
        table: bytes = getattr(code, "co_exceptiontable", b"")  # Python 3.10 has none
        return mark("code", *parts, str(flags), table, *steps)

    def _argument(self, step: dis.Instruction) -> bytes:
        """What an instruction works with. A constant's place depends on whether there is a docstring."""
        return self.of(step.argval) if step.opcode in dis.hasconst else str(step.arg).encode()

    def _imports(self, code: types.CodeType, package: str) -> Iterator[bytes]:
        """The modules that a function of a package imports while it runs."""
        for name, parts in sorted(set(_imported(code, package))):
            if origin(name) != "user":
                yield self._name(name, "")
                continue
            try:
                module = importlib.import_module(name)
                for part in parts:
                    if not hasattr(module, part):
                        importlib.import_module(f"{name}.{part}")
                yield self.of(module)
            except ImportError:  # where it runs there may be one
                yield mark("name", name)

    def _class(self, kind: type) -> bytes:
        if origin(kind.__module__) != "user" and "<locals>" not in kind.__qualname__:
            return self._name(kind.__module__, kind.__qualname__)
        self._where.append(kind.__name__)
        parts = [kind.__qualname__.encode(), self.of(type(kind)), *map(self.of, kind.__bases__)]
        for name in sorted(vars(kind).keys() - _OF_CLASSES):
            parts += [name.encode(), self.at(f".{name}", vars(kind)[name])]
        self._where.pop()
        return mark("class", *parts)

    def _other(self, value: Any) -> bytes:
        if isinstance(value, (staticmethod, classmethod)):
            return mark(type(value).__name__, self.of(value.__func__))
        if isinstance(value, property):
            return mark("property", *map(self.of, (value.fget, value.fset, value.fdel)))
        if isinstance(value, functools.cached_property):
            return mark("cached_property", self.of(value.func))
        if isinstance(value, types.MethodType):
            return mark("method", self.of(value.__func__), self.of(value.__self__))
        if isinstance(value, (types.MemberDescriptorType, types.GetSetDescriptorType)):
            return mark("descriptor", value.__name__)
        if isinstance(value, functools._lru_cache_wrapper):
            return mark("lru_cache", self.of(value.__wrapped__), self.of(value.cache_parameters()))
        module, name = _place(value)
        if name:
            return self._name(module, name)
        if isinstance(value, types.BuiltinMethodType) and value.__self__ is not None:
            return mark("method", self.of(value.__self__), value.__name__)
        inner = getattr(value, "__wrapped__", None) or getattr(value, "py_func", None)
        if isinstance(inner, types.FunctionType):  # jax.jit, numba.njit and others compile it
            return mark("wrapped", self.of(type(value)), self.of(inner))
        return self._reduced(value)

    def _reduced(self, value: Any) -> bytes:
        """An object as what makes one that is equal, as pickle asks for it: a function or a class, and values."""
        try:
            reduce = copyreg.dispatch_table.get(type(value))
            made = reduce(value) if reduce is not None else value.__reduce_ex__(4)
        except Exception as err:
            raise self._refused(value) from err
        if isinstance(made, str):
            return mark("reduced", made)
        function, args, state, items, pairs = (*made, None, None, None)[:5]
        self._where.append(f"its {type(value).__name__}")
        listed = [None if each is None else list(each) for each in (items, pairs)]
        digest = mark("reduced", *map(self.of, (function, args, state, *listed)))
        self._where.pop()
        return digest

    def _refused(self, value: Any) -> SpecError:
        kind = type(value)
        name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        way = " > ".join(self._where) or "what is called"
        return SpecError(
            f"{self._op}: {way} is a {name}, and whether that is the same in another run cannot be told; {_INSTEAD}"
        )


def _plain(value: Any) -> bytes | None:
    """The digest of a value of Python's own that refers to nothing."""
    kind = type(value)
    if value is None or kind in (bool, int, float, complex):
        return mark(kind.__name__, repr(value))
    if kind in (str, bytes, bytearray):
        return mark(kind.__name__, value)
    return mark("...") if value is ... else None


def _content(value: Any) -> bytes | None:
    """The digest of what NumPy, Arrow and torch keep in memory, by its content."""
    if isinstance(value, (pa.DataType, pa.Field, pa.Schema, np.dtype)):
        return mark("type", repr(value))
    if isinstance(value, pa.Scalar):
        value = pa.array([value.as_py()], value.type)
    if isinstance(value, (pa.Array, pa.ChunkedArray)):
        value = pa.table([value], names=[""])
    if isinstance(value, (pa.RecordBatch, pa.Table)):
        table = pa.Table.from_batches([value]) if isinstance(value, pa.RecordBatch) else value
        whole = table.take(pa.array(range(len(table)), pa.int64())).combine_chunks()  # however it was cut
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, whole.schema) as stream:
            stream.write_table(whole)
        return mark("arrow", sink.getvalue().to_pybytes())
    if type(value).__module__ == "torch" and hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    if not isinstance(value, (np.ndarray, np.generic)):
        return None
    return mark("numpy", value.dtype.str, repr(value.shape), np.ascontiguousarray(value).tobytes())


def _is_empty(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return True
    return False


def _steps(code: types.CodeType) -> Iterator[dis.Instruction]:
    steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
    for step, after in zip(steps, [*steps[1:], None], strict=True):
        if after is None or after.opname != "STORE_NAME" or after.argval not in _OF_BODIES:
            yield step


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """A function's code, and that of all functions in it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _codes(const)


def _names(code: types.CodeType) -> Iterable[str]:
    return (name for each in _codes(code) for name in each.co_names)


def _loaded(code: types.CodeType) -> Iterable[str]:
    """The names of globals that code reads."""
    return (str(s.argval) for each in _codes(code) for s in dis.get_instructions(each) if s.opname in _LOADS)


def _imported(code: types.CodeType, package: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The modules that code of a package imports, and what it takes from each."""
    for each in _codes(code):
        steps = [step for step in dis.get_instructions(each) if step.opname != "EXTENDED_ARG"]
        for level, parts, step in zip(steps, steps[1:], steps[2:], strict=False):
            if step.opname != "IMPORT_NAME":
                continue
            above = package.split(".")[: len(package.split(".")) + 1 - level.argval] if level.argval else []
            yield ".".join(filter(None, [*above, step.argval])), tuple(parts.argval or ())


def _place(value: Any) -> tuple[str, str]:
    """The module of an installed package, or of Python's own, and the name that a value has there, if it has one."""
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    module = getattr(value, "__module__", None) or getattr(type(value), "__module__", None)
    if isinstance(value, types.BuiltinFunctionType) and isinstance(value.__self__, types.ModuleType):
        module = value.__self__.__name__
    if not isinstance(name, str) or not isinstance(module, str) or origin(module) == "user":
        return "", ""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return (module, name) if found is value else ("", "")


def origin(module: str) -> str:
    """Whose a module is: the "user"'s, a "library"'s, Python's own ("python"), or Penstock's ("own")."""
    top = module.partition(".")[0]
    if top in ("__main__", "__mp_main__"):  # which may be a file of an installed package that runs the user's
        return "user"
    if top in sys.stdlib_module_names:
        return "python"
    if top == "penstock":
        return "own"
    return "library" if _is_installed(sys.modules.get(top)) else "user"


def is_users(module: types.ModuleType) -> bool:
    """Whether a module is a file, or a folder of files, of the user's own."""
    name = getattr(module, "__name__", "")
    has_files = getattr(module, "__file__", None) is not None or hasattr(module, "__path__")
    return name != "__main__" and has_files and sys.modules.get(name) is module and origin(name) == "user"


def is_by_value(function: Any) -> bool:
    """Whether a function is the user's own, or was made inside another one, so that no import has it."""
    return origin(function.__module__ or "") == "user" or "<locals>" in function.__qualname__


def _is_installed(module: types.ModuleType | None) -> bool:
    """Whether a module lies where packages are installed; one that is installed as editable does not."""
    file = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), None)
    if file is None:
        return False
    path = Path(file)
    return _has_packages(path.parents[1] if path.name.startswith("__init__.") else path.parent)


@functools.cache
def _has_packages(folder: Path) -> bool:
    return not {"site-packages", "dist-packages"}.isdisjoint(folder.parts) or any(folder.glob("*.dist-info"))


@functools.cache
def _packages() -> Mapping[str, list[str]]:
    return importlib.metadata.packages_distributions()


@functools.cache
def distribution(top: str) -> str:
    """A top-level module's package with its public version, "numpy==2.1.0"."""
    name = min(_packages().get(top, ()), default=top)  # Python 3.10 does not know all
    version = _versions.public(name, top)
    return f"{_versions.normalised(name)}=={version}" if version else name
