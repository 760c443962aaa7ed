"""The functions of a loader's transforms as bytes that workers can load, by cloudpickle.

What the user's own modules have travels by its value: where the functions run, these modules need not be. What is
installed is imported there.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import io
import sys
import threading
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from penstock import _identity
from penstock._op import Op
from penstock.errors import SpecError, UsageError

LARGEST = 16 << 20  # bytes of a session's code

_registering = threading.Lock()  # cloudpickle has one list for all threads


def pickled(functions: Sequence[Op]) -> bytes:
    """A session's code: a list of what each function is."""
    try:
        import cloudpickle
    except ImportError:
        raise UsageError(
            f"transforms= have Python functions ({_names(functions)}), and cloudpickle, which takes them to the "
            'workers, is not installed: pip install "penstock[op]"'
        ) from None
    with _by_value(cloudpickle):
        try:
            data = _dumped(cloudpickle, [f.entry() for f in functions])
        except Exception as err:  # as whatever it refers to raises
            raise _unpicklable(cloudpickle, functions, err) from err
        if len(data) <= LARGEST:
            return data
        sizes = [len(_dumped(cloudpickle, f.entry())) for f in functions]
    largest = max(range(len(sizes)), key=sizes.__getitem__)
    raise SpecError(
        f"{functions[largest].name}: it and what it refers to take {sizes[largest]:,} bytes, and all functions of a "
        f"loader may take {LARGEST:,}; have the __init__ of a class read large data from a file, whose path is in args="
    )


def _dumped(cloudpickle: Any, value: object, modules: list[types.ModuleType] | None = None) -> bytes:
    """What cloudpickle makes of a value. modules gets those that it refers to as a whole, as far as it came.

    With it go the names of files, which it leaves out, since tracebacks show lines of them, and the functions below
    @functools.lru_cache, which it would look for where the code is loaded.
    """
    reduce = cloudpickle.Pickler.dispatch_table[types.CodeType]

    def reduced(code: types.CodeType) -> tuple[Any, ...]:
        make, args = reduce(code)
        return make, tuple(code.co_filename if part == "<dynamic-code>" else part for part in args)

    def noted(module: types.ModuleType) -> Any:
        if modules is not None:
            modules.append(module)
        return cloudpickle.Pickler.dispatch_table[types.ModuleType](module)

    own = {types.CodeType: reduced, functools._lru_cache_wrapper: _cached, types.ModuleType: noted}

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        dispatch_table: ClassVar[Any] = collections.ChainMap(own, cloudpickle.Pickler.dispatch_table)

    with io.BytesIO() as file:
        Pickler(file).dump(value)
        return file.getvalue()


def _cached(function: Any) -> str | tuple[Any, ...]:
    """A function that has a cache, as pickle's reduce gives it: with an empty one, if it is the user's own."""
    if not _identity.is_by_value(function):
        return str(function.__reduce__())
    return remade_cached, (function.__wrapped__, function.cache_parameters())


def remade_cached(function: Any, parameters: Mapping[str, Any]) -> Any:
    """The function with a cache, where the code is loaded."""
    return functools.lru_cache(**parameters)(function)


def _names(functions: Sequence[Op]) -> str:
    return ", ".join(f.name for f in functions)


def _unpicklable(cloudpickle: Any, functions: Sequence[Op], err: Exception) -> SpecError:
    """Says which function does not travel."""
    for f in functions:
        modules: list[types.ModuleType] = []
        try:
            _dumped(cloudpickle, f.entry(), modules)
        except Exception as own:
            words = f"{f.name}: it cannot be sent to workers: {type(own).__name__}: {own}"
            stuck = next(_stuck(cloudpickle, modules), None)
            if stuck is None:
                return SpecError(f"{words}; make such objects in the __init__ of a class, or inside the function")
            module, name = stuck
            return SpecError(
                f"{words}: it refers to all of the module {module}, which has it as {name}; import from there what "
                f"the function needs, as `from {module} import ...`"
            )
    return SpecError(f"{_names(functions)}: they cannot be sent to workers: {err}; give them objects of their own")


def _stuck(cloudpickle: Any, modules: Sequence[types.ModuleType]) -> Iterator[tuple[str, str]]:
    """Of the user's modules among these, the globals that cannot be pickled."""
    for module in filter(_identity.is_users, modules):
        for name, value in vars(module).items():
            try:
                if not name.startswith("__"):
                    _dumped(cloudpickle, value)
            except Exception:
                yield module.__name__, name


@contextlib.contextmanager
def _by_value(cloudpickle: Any) -> Iterator[None]:
    """Has the contents of the user's modules pickled, not their names."""
    with _registering, contextlib.ExitStack() as registered:
        known = cloudpickle.list_registry_pickle_by_value()
        for name, module in list(sys.modules.items()):
            if "." not in name and name not in known and _identity.is_users(module):
                cloudpickle.register_pickle_by_value(module)
                registered.callback(cloudpickle.unregister_pickle_by_value, module)
        yield
