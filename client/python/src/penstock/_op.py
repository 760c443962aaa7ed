"""Transforms, and Python functions that are ops: what penstock.op makes of them.

They check what Python alone knows: types of arguments, and whether a function takes so many inputs. Names and the types
of inputs are the master's to check.
"""

from __future__ import annotations

import functools
import inspect
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from penstock import _op_draws, _types
from penstock._op_call import MOST, Entry, Function
from penstock._types import Type
from penstock._values import Message, Names, check_integer
from penstock.errors import SpecError

_STYLES = ("arrow", "numpy", "rows")
_KINDS = ("map", "filter", "flat_map")
_MOST = 1 << 16  # rows that a flat_map may make of one


@dataclass(frozen=True)
class Transform:
    """An op that is applied to features: what log1p(), op() and so on return."""

    op: str
    inputs: tuple[str, ...] = ()
    out: str = ""  # "": it replaces the inputs
    params: Mapping[str, Message] = field(default_factory=dict)  # Values
    python: Op | None = None  # what op "python" calls
    outs: tuple[tuple[str, Type], ...] = ()  # what that makes, in place of out
    only_training: bool = False

    def training_only(self) -> Transform:
        """The same transform, left out when penstock.Transforms or `penstock apply` serves rows.

        Its results replace its inputs and are of the same types, as those of flip() are, or it chooses rows.
        """
        return replace(self, only_training=True)

    def message(self, functions: Sequence[Op] = ()) -> Message:
        """A Transform of the spec. functions: of the session's code, in its order."""
        only = {"training_only": True} if self.only_training else {}
        if self.python is None:
            return {"op": self.op, "in": list(self.inputs), "out": self.out, "params": dict(self.params), **only}
        return {
            "op": self.op, "in": list(self.inputs),
            "python": self.python.message([each.key for each in functions].index(self.python.key)),
            "outs": [kind.message(name) for name, kind in self.outs], **only,
        }  # fmt: skip


@dataclass(frozen=True, eq=False)
class Op:
    """A Python function, or a class, as an op: called with names of features it is a transform.

    Attributes:
        function: it itself, to be called as ever.
        name: for messages and dashboards.
        outs: the types of its results by their names; () of a filter, and if there is one that is named where the op is
            used.
    """

    function: Callable[..., Any]
    name: str
    outs: tuple[tuple[str, Type], ...]
    only: Type | None  # of the one result without a name
    by: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    deterministic: bool
    memory: int | None
    threads: int
    timeout: float | None
    kind: str = "map"  # or "filter", "flat_map"
    most: int | None = None  # rows that a flat_map makes at most, for each that it gets
    rng: bool = False  # it gets what it draws random numbers from

    def __call__(self, *in_: Names, out: str | None = None) -> Transform:
        """A transform of these features, by their names.

        out names the result of an op whose out= is one type. Without it the result replaces the input.
        """
        names: list[Any] = [name for given in in_ for name in (given if isinstance(given, (list, tuple)) else [given])]
        self._check_inputs(names)
        if self.only is None:
            if out is not None and self.kind == "filter":
                raise SpecError(f"{self.name}: out={out!r:.80}; a filter makes no results, so leave out= out")
            if out is not None:
                raise SpecError(f"{self.name}: out={out!r:.80}; it names its results itself: {self._names()}")
            return Transform("python", tuple(names), python=self, outs=self.outs)
        if out is None and len(names) != 1:
            raise SpecError(
                f"{self.name}: its result replaces one input, and there are {len(names)}; name it, as out=..."
            )
        return Transform("python", tuple(names), python=self, outs=((names[0] if out is None else out, self.only),))

    def _names(self) -> str:
        return ", ".join(name for name, _ in self.outs)

    def _check_inputs(self, names: Sequence[Any]) -> None:
        wrong = [name for name in names if not isinstance(name, str)]
        if wrong or not names:
            raise SpecError(
                f"{self.name}: found {_found(wrong[0]) if wrong else 'no input'}; give names of features, as "
                f'{self.name}("a", "b"). To call it here, call {self.name}.function'
            )
        drawn = {_op_draws.KEYWORDS[self.by]: None} if self.rng else {}
        try:
            if inspect.isclass(self.function):
                inspect.signature(self.function.__call__).bind(None, *names, **drawn)
            else:
                inspect.signature(self.function).bind(*names, **self.kwargs, **drawn)
        except TypeError as err:
            raise SpecError(f"{self.name}: {err}, where the inputs are {', '.join(names)}") from None
        except ValueError:  # of what is written in C the signature may be unknown
            pass
        self._check_made()

    def _check_made(self) -> None:
        """Refuses a class whose arguments are not all there."""
        if not inspect.isclass(self.function):
            return
        try:
            inspect.signature(self.function).bind(*self.args, **self.kwargs)
        except TypeError as err:
            raise SpecError(f"{self.name}: {err}; {_OF_INIT}") from None
        except ValueError:  # it is written in C
            pass

    @property
    def key(self) -> object:
        """What tells it from others in a session."""
        return self

    def message(self, index: int) -> Message:
        """A Function of the spec, which is at this place in the session's code."""
        said = {
            "name": self.name, "index": index, "style": self.by.upper(), "kind": self.kind.upper(),
            "most": self.most, "memory": self.memory, "rng": self.rng or None,
            "threads": None if self.threads == 1 else self.threads, "deterministic": self.deterministic or None,
            "timeout_ms": None if self.timeout is None else max(1, round(self.timeout * 1000)),
        }  # fmt: skip
        return {key: value for key, value in said.items() if value is not None}

    def entry(self) -> Entry:
        """What a session's code has of it."""
        return {
            "call": self.function, "args": self.args, "kwargs": dict(self.kwargs),
            "results": [name for name, _ in self.outs],
        }  # fmt: skip

    def made(self) -> Function:
        """It, ready to be called in this process as workers call it."""
        self._check_made()
        types = [self.only] if self.only is not None else [kind for _, kind in self.outs]
        declared = [kind.declared() for kind in types]
        return Function(self.entry(), self.by, declared, self.name, self.kind, self.most or MOST, self.rng)

    def __repr__(self) -> str:
        out = repr(self.only) if self.only is not None else repr(dict(self.outs))
        made = "" if self.kind == "filter" else f", out={out}"
        return f"penstock.op({self.name}{made}, by={self.by!r}" + (f", kind={self.kind!r}" * (self.kind != "map")) + ")"


def _found(value: object) -> str:
    return f"a {type(value).__name__}"


def functions_of(transforms: Iterable[Transform]) -> list[Op]:
    """The functions that transforms call, each once, in the order of the session's code."""
    return list({t.python.key: t.python for t in transforms if t.python is not None}.values())


def python(
    function: object, *, out: Any = None, by: str = "arrow", args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None, deterministic: bool = False, memory: int | None = None, threads: int = 1,
    timeout: float | None = None, name: str | None = None, kind: str = "map", most: int | None = None,
    rng: bool = False,
) -> Op:  # fmt: skip
    """The op of a function, a class, or another object that can be called."""
    if not callable(function):
        raise SpecError(f"op: found {_found(function)}; give the name of an op, or a function or a class")
    called = _name_of(function) if name is None else name
    check_style(called, by)
    check_kind(called, kind, most)
    if rng and _op_draws.KEYWORDS[by] in (kwargs or {}) and not inspect.isclass(function):
        raise SpecError(f"{called}: kwargs= has {_op_draws.KEYWORDS[by]}, which rng=True gives it; leave one out")
    outs, only = outs_of(called, out, kind)
    _check_call(called, function, args, kwargs or {}, yields=kind == "flat_map" and by == "rows")
    check_bounds(called, memory, threads, timeout)
    return Op(
        function, called, outs, only, by, tuple(args), dict(kwargs or {}), bool(deterministic),
        None if memory is None else int(memory), int(threads), None if timeout is None else float(timeout),
        kind, None if most is None else int(most), bool(rng),
    )  # fmt: skip


def _name_of(function: object) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


def check_style(name: str, by: str) -> None:
    """Refuses a way to be called that there is not."""
    if by not in _STYLES:
        raise SpecError(f'{name}: by={by!r:.80}; give "arrow", "numpy" or "rows"')


def check_bounds(name: str, memory: int | None, threads: int | None, timeout: float | None) -> None:
    """Refuses what a function cannot ask for; None: it does not."""
    for what, value in {"memory": memory, "threads": threads}.items():
        if value is not None:
            check_integer(f"{name}: {what}", value, least=1)
    if timeout is not None and (not isinstance(timeout, numbers.Real) or isinstance(timeout, bool) or timeout <= 0):
        raise SpecError(f"{name}: timeout={timeout!r:.80}; give the seconds that a call may take, above 0")


def check_kind(name: str, kind: str, most: int | None) -> None:
    """Refuses a kind that there is not, and a bound of rows where none are made."""
    if kind not in _KINDS:
        raise SpecError(f'{name}: kind={kind!r:.80}; give "map", "filter" or "flat_map"')
    if most is None:
        return
    if kind != "flat_map":
        raise SpecError(f"{name}: most={most!r:.80}; a {kind} makes no more rows than it gets, so leave it out")
    check_integer(f"{name}: most", most, least=1, most=_MOST)


def outs_of(name: str, out: Any, kind: str) -> tuple[tuple[tuple[str, Type], ...], Type | None]:
    """The results that out= names, or the type of the only one."""
    if kind == "filter":
        if out is not None:
            raise SpecError(f"{name}: out={out!r:.80}; a filter makes no results: leave out= out, and return bools")
        return (), None
    if out is None:
        raise SpecError(
            f'{name}: say what it makes, as @penstock.op(out={{"tokens": penstock.int32.list()}}), or '
            "out=penstock.int32.list() for a result that replaces its input"
        )
    if not isinstance(out, Mapping):
        return (), _types.type_of(out, f"{name}: out")
    wrong = [key for key in out if not isinstance(key, str) or not key]
    if wrong or not out:
        raise SpecError(f"{name}: out: found {out!r:.80}; give the type of each result by its name")
    if kind == "flat_map" and "parents" in out:
        raise SpecError(f"{name}: out: a result of a flat_map cannot be called parents, as the rows that it is of are")
    return tuple((key, _types.type_of(kind, f"{name}: out[{key!r}]")) for key, kind in out.items()), None


_OF_INIT = "args= and kwargs= are what its __init__ gets"


def _check_call(
    name: str, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], yields: bool
) -> None:
    """Refuses arguments that it does not take, and what is called otherwise."""
    if isinstance(args, (str, bytes)) or not isinstance(args, Sequence):
        raise SpecError(f"{name}: args={args!r:.80}; give a tuple, as args=(...,)")
    if not isinstance(kwargs, Mapping) or not all(isinstance(key, str) for key in kwargs):
        raise SpecError(f"{name}: kwargs={kwargs!r:.80}; give a dict, as kwargs={{...}}")
    if not inspect.isclass(function):
        if args:
            raise SpecError(f"{name}: args= are of classes; give a function its keywords, as kwargs={{...}}")
        call: Any = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    else:
        call = getattr(function, "__call__", None)  # noqa: B004
        if not inspect.isfunction(call):
            raise SpecError(f"{name}: the class has no method __call__; add one, which gets the inputs")
        try:
            inspect.signature(function).bind_partial(*args, **kwargs)  # by name, a spec may give the rest
        except TypeError as err:
            raise SpecError(f"{name}: {err}; {_OF_INIT}") from None
        except ValueError:  # it is written in C
            pass
    generates = inspect.isgeneratorfunction(call) and not yields
    if inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call) or generates:
        raise SpecError(
            f"{name}: it is a coroutine or a generator; give a function that returns its results"
            + (', or say kind="flat_map", by="rows" for one that yields several outputs of a row' * generates)
        )
