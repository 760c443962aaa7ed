"""The spec of what a loader reads: made of a loader's arguments, or as a text that the master parses.

It makes a message of api/pb/spec.proto, in protobuf's JSON, of features (features.py) and transforms (_op.py), and
checks nothing but Python's own types: names, types and parameters are the master's to check, which reports all mistakes
at once as SpecError. The language is that of docs/reference/spec.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from penstock import _identity
from penstock._named import Named
from penstock._op import Op, Transform, functions_of
from penstock._paths import absolute
from penstock._values import Message, check_integer, check_text, without_none
from penstock.errors import SpecError
from penstock.features import Features
from penstock.groups import Data, format_message, skipped

_ORDERS = ("fast", "deterministic")
_LAST_BATCHES = ("uneven", "drop", "pad")


def build(
    uri: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    features: Features,
    *,
    data: Data,
    batch_size: int | None = None,
    transforms: Transform | Iterable[Transform] = (),
    filter: str = "",  # noqa: A002
    last_batch: str | None = None,
    order: str = "fast",
    seed: int = 0,
    shuffle: bool = False,
    epochs: int | None = None,
    python: str = "",
    fitted: str | os.PathLike[str] = "",
    split: str = "",
    subset: str = "",
) -> Message:
    """The whole spec. Local paths become absolute: the processes that read them have other working directories."""
    if last_batch is not None and last_batch not in _LAST_BATCHES:
        raise SpecError(f'last_batch: found {last_batch!r}; give "uneven", "drop" or "pad"')
    if order not in _ORDERS:
        raise SpecError(f'order: found {order!r}; give "fast" or "deterministic"')
    steps = list(transforms) if isinstance(transforms, Iterable) else [transforms]
    _check(features, steps)
    for name, text in {"filter": filter, "python": python, "split": split, "subset": subset}.items():
        check_text(name, text)
    check_integer("seed", seed)
    for name, value in {"batch_size": batch_size, "epochs": epochs}.items():
        if value is not None:
            check_integer(name, value, least=1)
    given = {
        "batch_size": batch_size, "global_batch_size": data.global_batch_size, "lanes": data.lanes, "epochs": epochs,
    }  # fmt: skip
    uris = [uri] if isinstance(uri, (str, os.PathLike)) else list(uri)
    skip = skipped(data.on_error)
    functions = functions_of(steps)
    own = by_value(functions)
    return without_none({
        "dataset": without_none({
            "uri": [absolute(u) for u in uris], "storage": data.storage, "partitions": data.partitions,
            "format": format_message(data.file_format), "split": split or None, "subset": subset or None,
        }),
        "filter": filter, "features": [f.message() for f in features],
        "transforms": [_located(t.message(functions)) for t in steps],
        **{name: None if value is None else int(value) for name, value in given.items()},
        "last_batch": last_batch and last_batch.upper(), "order": order.upper(), "seed": int(seed),
        "shuffle": bool(shuffle), "provenance": bool(data.provenance),
        "on_error": skip,
        "python": python or None,
        "fitted": _fitted(fitted) if fitted else None,
        "code": _identity.of([(f.name, f.entry()) for f in own]) if own else None,
    })  # fmt: skip


def _located(step: Message) -> Message:
    """A transform with the whole path of its side table, if it has one."""
    params = step.get("params", {})
    if step.get("op") != "lookup" or "text" not in params.get("table", {}):
        return step
    return {**step, "params": {**params, "table": {"text": absolute(params["table"]["text"])}}}


def _fitted(file: str | os.PathLike[str]) -> Message:
    """The fitted file: of what penstock.fit returns, that very one."""
    return without_none({"uri": absolute(file), "digest": getattr(file, "digest", None)})


def by_value(functions: Sequence[Op]) -> list[Op]:
    """The functions that travel with the loader: all of them, or none, since workers have them by name."""
    named = [f for f in functions if isinstance(f, Named)]
    own = [f for f in functions if not isinstance(f, Named)]
    if named and own:
        raise SpecError(
            f"transforms: {named[0].call} is by name, and {own[0].name} is a function of this program; a loader has "
            f"all of its functions by name, or none: put {own[0].name} into a module that the workers list and name it "
            f"there, or import {named[0].name} here and give the function itself"
        )
    return own


def _check(features: object, transforms: Iterable[object]) -> None:
    """Refuses what no message can hold, in words about the arguments."""
    if not isinstance(features, Features):
        raise SpecError(f"features: found {features!r:.80}; {_as_features(features)}")
    for step in transforms:
        if isinstance(step, Op):
            raise SpecError(f'transforms: found {step.name} itself; say of what, as {step.name}("a", "b")')
        if not isinstance(step, Transform):
            raise SpecError(f"transforms: found {step!r:.80}; give a list, as transforms=[penstock.log1p(...)]")


def _as_features(given: object) -> str:
    """How to write as features what was given instead."""
    names = [given] if isinstance(given, str) else given
    if isinstance(names, (list, tuple)) and names and all(isinstance(name, str) for name in names):
        return f"say what they become: penstock.dense({given!r}), or a sum as penstock.dense(...) + penstock.label(...)"
    return "add them up, as penstock.dense(...) + penstock.label(...)"


def read_text(spec: str | os.PathLike[str]) -> str:
    """The text of a spec that is given as YAML or JSON, or as the path of a file with it.

    A str with a line break or a brace at its start is the text itself. The master parses it. Relative paths in it begin
    at the program's working directory.
    """
    if isinstance(spec, str) and ("\n" in spec or spec.lstrip().startswith("{")):
        return spec
    try:
        return Path(spec).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as err:
        raise SpecError(f"spec: {os.fspath(spec)}: {err}; give a file's path, or YAML or JSON itself") from err
