"""What to say to arguments and attributes that penstock.DataLoader and the groups of its arguments do not have.

People try those of torch's first. Everything is pure.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import ParamSpec, TypeAlias, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

INSTEAD = {
    "dataset": "the first argument is the dataset's URI",
    "num_workers": (
        "leave it out: workers of the fleet make the batches, in processes of their own. Where no master= is named, "
        "workers=N runs so many on this machine; another fleet has as many as its trainers need"
    ),
    "sampler": "shuffle=True with seed= orders the rows, and filter= and the op sample choose among them",
    "batch_sampler": (
        "batch_size= or data=penstock.Data(global_batch_size=...) cuts batches, shuffle=True with seed= orders the rows"
    ),
    "collate_fn": "map=f changes each batch in the training loop's process, and transforms= on the workers",
    "drop_last": 'drop_last=True is last_batch="drop"',
    "worker_init_fn": "what a worker's process needs once, the __init__ of a class makes: see penstock.op",
    "multiprocessing_context": "no process is forked from this one: leave it out",
    "generator": "seed= decides the order of rows",
    "prefetch_factor": "batches come ahead of the loop by themselves, up to budget= bytes",
    "persistent_workers": "the fleet's workers stay: leave it out",
    "pin_memory_device": "device= names the device",
    "in_order": 'order="deterministic" repeats the order of batches',
}

ATTRIBUTES = INSTEAD | {
    "dataset": (
        "len(loader) is the number of batches where it is known, loader.schema and loader.peek() show what is in them, "
        "and `penstock show URI` tells the number of rows"
    ),
}


def optional(call: Callable[P, R]) -> Callable[P, R]:
    """Has None stand for what is not given, in each argument that has a default."""
    known = inspect.signature(call).parameters

    @functools.wraps(call)
    def called(*unnamed: P.args, **named: P.kwargs) -> R:
        for name in [name for name, value in named.items() if value is None and name in known]:
            del named[name]
        return call(*unnamed, **named)

    return called


Groups: TypeAlias = Mapping[str, tuple[str, tuple[str, ...]]]
"""Of the groups of arguments the name and the fields, by the argument that each is given as."""

_RENAMED = {"tls_ca": "ca", "tls_cert": "cert", "tls_key": "key", "tls_server_name": "server_name"}


def unexpected(given: Iterable[str], known: Iterable[str], groups: Groups) -> str:
    """The words of a TypeError about arguments that the loader does not have; of values, which may be tokens, none."""
    moved, lines = dict[str, list[str]](), list[str]()
    known = list(known)
    for name in given:
        argument = _argument_of(name, groups)
        if argument is not None:
            moved.setdefault(argument, []).append(name)
        else:
            lines.append(f"DataLoader() has no argument {name!r}: {_advice(name, known, groups)}")
    for argument, names in moved.items():
        what = f"argument{'' if len(names) == 1 else 's'} {', '.join(map(repr, names))}"
        lines.append(f"DataLoader() has no {what}: give {_written(argument, names, groups)}")
    return "\n".join(lines)


def _argument_of(name: str, groups: Groups) -> str | None:
    """The argument whose group has a field of that name, or of the one that it had as an argument."""
    field = _RENAMED.get(name, name)
    return next((argument for argument, (_, fields) in groups.items() if field in fields), None)


def _written(argument: str, names: Iterable[str], groups: Groups) -> str:
    """A group as a program gives it."""
    given = ", ".join(f"{_RENAMED.get(name, name)}=..." for name in names) or "..."
    return f"{argument}=penstock.{groups[argument][0]}({given})"


def _advice(name: str, known: list[str], groups: Groups) -> str:
    if name in INSTEAD:
        return INSTEAD[name]
    fields = [*_RENAMED, *(field for _, fields in groups.values() for field in fields)]
    near = difflib.get_close_matches(name, [*known, *fields], 1)
    if not near:
        return "see help(penstock.DataLoader)"
    argument = None if near[0] in known else _argument_of(near[0], groups)
    return f"did you mean {near[0]}=?" if argument is None else f"did you mean {_written(argument, near, groups)}?"


def no_field(group: str, given: Iterable[str], groups: Groups) -> str:
    """The words of a TypeError about fields that a group does not have; without any, about fields without a name."""
    argument = next(argument for argument, (name, _) in groups.items() if name == group)
    lines = [f"{group}() has no field {name!r}: {_place(name, argument, groups)}" for name in given]
    return "\n".join(lines) or f"{group}() takes fields by their names: {_fields(argument, groups)}"


def _place(name: str, argument: str, groups: Groups) -> str:
    """Where what was given to a group belongs."""
    from penstock.loader import DataLoader  # which imports this

    other = _argument_of(name, groups)
    if other == argument:
        return f"it is {_RENAMED[name]}="
    if other is not None:
        return f"give {_written(other, [name], groups)}"
    if name in inspect.signature(DataLoader).parameters:
        return f"give {name}= to DataLoader() itself"
    near = difflib.get_close_matches(name, groups[argument][1], 1)
    return f"did you mean {near[0]}=?" if near else f"its fields are {_fields(argument, groups)}"


def _fields(argument: str, groups: Groups) -> str:
    return ", ".join(f"{field}=" for field in groups[argument][1])


def no_group(argument: str, given: object, groups: Groups) -> str:
    """What to say to something else in place of a group; of values, which may be tokens, nothing."""
    group, fields = groups[argument]
    if not isinstance(given, Mapping):
        what = f"the class {given.__name__}" if isinstance(given, type) else f"a {type(given).__name__}"
        return f"{argument}= is {what}: give {argument}=penstock.{group}(...), of {_fields(argument, groups)}"
    names = [str(name) for name in given]
    here = [name for name in names if _RENAMED.get(name, name) in fields]
    lines = [f"{argument}= is a {type(given).__name__}: give {_written(argument, here, groups)}"]
    wrong = [name for name in names if name not in here]
    return "\n".join([*lines, *([no_field(group, wrong, groups)] if wrong else [])])
