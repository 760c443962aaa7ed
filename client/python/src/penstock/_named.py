"""Functions by name, "mypkg.features:tokenize": objects of modules, which penstock.op marked as functions of workers.

A worker imports the modules that it lists, and no others, and calls what is marked there, and nothing else. So nobody
who opens a session brings code of their own.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import importlib
import json
import pkgutil
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

from penstock._op import Op, check_bounds, check_kind, check_style, outs_of
from penstock._op_call import Entry, Function, Mistake
from penstock._values import Message, value_of
from penstock.errors import SpecError

_CALL = re.compile(r"(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*):(?P<name>[^\W\d]\w*)")
_SHOWN = 20  # names in a message

ANY = "*"  # in place of a module: each one
_BELOW = ".*"  # behind a package: it, and all modules in it


class Absent(Mistake):
    """There is no function by this name. The words say what there is instead."""


def find(call: str, modules: Sequence[str] = (ANY,)) -> Op:
    """The function of this name, if it lies in one of these modules.

    Raises:
        Absent: there is none. What a module raises while it is imported goes on.
    """
    name, attribute = _parts(call)
    if not any(_lists(listed, name) for listed in modules):
        raise Absent(
            f"{name} is not among the modules that functions by name may be of here: {_some(modules)}"
            f"{_nearest(name, modules)}; have workers list it, by --python-modules"
        )
    found = _imported(name)
    value = getattr(found, attribute, None)
    if isinstance(value, Op) and not isinstance(value, Named):
        return value
    if value is None:
        raise Absent(f"{name} has no function {attribute}{_nearest(attribute, marked(found))}; {_offers(found)}")
    raise Absent(
        f"{call} is a {type(value).__name__} that penstock.op has not marked, so that it is no function of workers; "
        f"put @penstock.op(...) before it. {_offers(found)}"
    )


def _parts(call: str) -> tuple[str, str]:
    """The module and the name in it."""
    found = _CALL.fullmatch(call)
    if found is None:
        raise Absent(f'{call!r:.200} names no function; give its module and its name, as "mypkg.features:tokenize"')
    if found["module"] == "__main__":
        raise Absent(
            f"{call}: the program itself is not on workers; put {found['name']} into a module that they have, and name "
            f'it as "mypkg.features:{found["name"]}"'
        )
    return found["module"], found["name"]


def _lists(listed: str, module: str) -> bool:
    """Whether what a worker lists has a module in it."""
    if listed == ANY:
        return True
    package = listed.removesuffix(_BELOW)
    return module == package or (package != listed and module.startswith(package + "."))


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as err:
        if err.name is None or not f"{name}.".startswith(f"{err.name}."):
            raise  # it is another one that the module imports
        package, dot, _ = err.name.rpartition(".")
        path = getattr(sys.modules.get(package), "__path__", None)
        near = _nearest(err.name, [f"{package}{dot}{each.name}" for each in pkgutil.iter_modules(path)])
        raise Absent(
            f"there is no module {err.name}{near}; install it in the environment of the workers, or name its folder "
            "by --python-path"
        ) from None


def listed(modules: Iterable[str]) -> list[str]:
    """The names of all functions of the modules that are listed by their names, which are imported."""
    names = dict.fromkeys(each.removesuffix(_BELOW) for each in modules if each != ANY)
    return [f"{name}:{attribute}" for name in names for attribute in marked(_imported(name))]


def marked(module: ModuleType) -> list[str]:
    """The names of a module's functions."""
    return sorted(n for n, v in vars(module).items() if isinstance(v, Op) and not isinstance(v, Named))


def _offers(module: ModuleType) -> str:
    names = marked(module)
    return f"{module.__name__} has {_some(names)}" if names else f"{module.__name__} has no function that is marked"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _nearest(name: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, names, n=1)
    return f"; nearest: {near[0]}" if near else ""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Named(Op):
    """A function by its name, as an op. What it does not say is as the mark has it."""

    call: str = ""

    def _check_inputs(self, names: Sequence[Any]) -> None:
        wrong = [name for name in names if not isinstance(name, str)]
        if wrong or not names:
            found = f"a {type(wrong[0]).__name__}" if wrong else "no input"
            raise SpecError(f'{self.call}: found {found}; give names of features, as penstock.op(...)("a", "b")')

    @property
    def key(self) -> object:
        """Two are one in a session if they have one name and equal arguments."""
        return self.call, json.dumps(self._args(), sort_keys=True)

    def _args(self) -> Message:
        return {key: value_of(value, f"{self.call}: kwargs[{key!r}]") for key, value in self.kwargs.items()}

    def message(self, index: int) -> Message:
        """A Function of the spec, at this place among those of the session."""
        said = {
            "name": self.name, "index": index, "call": self.call, "kind": self.kind.upper(),
            "style": self.by.upper() or None, "most": self.most, "memory": self.memory, "threads": self.threads or None,
            "timeout_ms": None if self.timeout is None else max(1, round(self.timeout * 1000)),
            "args": self._args() or None,
        }  # fmt: skip
        return {key: value for key, value in said.items() if value is not None}

    def marked(self) -> Op:
        """The function that is meant, of the module as this process has it, with what is said here."""
        try:
            mark = find(self.call)
        except Absent as err:
            raise SpecError(f"{self.call}: {err}") from None
        if mark.kind != self.kind:
            raise SpecError(f'{self.call}: kind="{self.kind}", and its mark says kind="{mark.kind}"; give the same')
        if not _agree(self, mark):
            raise SpecError(f"{self.call}: out={_out(self)}, and its mark says out={_out(mark)}; give the same")
        return dataclasses.replace(
            mark, kwargs={**mark.kwargs, **self.kwargs}, by=self.by or mark.by, threads=self.threads or mark.threads,
            memory=self.memory or mark.memory, timeout=self.timeout or mark.timeout, most=self.most or mark.most,
        )  # fmt: skip

    def entry(self) -> Entry:
        """What is called, if it is called here."""
        return self.marked().entry()

    def made(self) -> Function:
        """It, ready to be called in this process, which imports its module."""
        return self.marked().made()

    def __repr__(self) -> str:
        return super().__repr__().replace(f"op({self.name}", f"op({self.call!r}").replace(", by=''", "")


def _agree(op: Op, mark: Op) -> bool:
    """Whether both make the same: one type without a name is any name's."""
    if op.only is None and mark.only is None:
        return op.outs == mark.outs
    kinds = [[kind for _, kind in each.outs] if each.only is None else [each.only] for each in (op, mark)]
    return kinds[0] == kinds[1]


def _out(op: Op) -> object:
    return op.only if op.only is not None else dict(op.outs)


def named(
    call: str, *, out: Any = None, by: str | None = None, kwargs: Mapping[str, Any] | None = None,
    memory: int | None = None, threads: int | None = None, timeout: float | None = None, name: str | None = None,
    kind: str = "map", most: int | None = None,
) -> Named:  # fmt: skip
    """The op of a function by its name."""
    try:
        _, attribute = _parts(call)
    except Absent as err:
        raise SpecError(f"op: {err}") from None
    if by is not None:
        check_style(call, by)
    check_kind(call, kind, most)
    check_bounds(call, memory, threads, timeout)
    if not isinstance(kwargs or {}, Mapping) or not all(isinstance(key, str) for key in kwargs or {}):
        raise SpecError(f"{call}: kwargs={kwargs!r:.80}; give a dict, as kwargs={{...}}")
    outs, only = outs_of(call, out, kind)
    made = Named(
        functools.partial(_call_here, call), name or attribute, outs, only, by or "", (), dict(kwargs or {}),
        deterministic=False, memory=None if memory is None else int(memory), threads=int(threads or 0),
        timeout=None if timeout is None else float(timeout), kind=kind, most=None if most is None else int(most),
        call=call,
    )  # fmt: skip
    made._args()  # which a spec can hold
    return made


def _call_here(call: str, *args: Any, **kwargs: Any) -> Any:
    return find(call).function(*args, **kwargs)
