"""The spec of what a loader reads: made of a loader's arguments, or as a text that the master parses.

It makes a message of api/pb/spec.proto, in protobuf's JSON, of features (features.py) and transforms (ops.py), and
checks nothing but Python's own types: names, types and parameters are the master's to check, which reports all mistakes
at once as SpecError. The language is that of api/spec/README.md.
"""

from __future__ import annotations

import numbers
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from penstock._values import Message, without_none
from penstock.errors import SpecError
from penstock.features import Features
from penstock.ops import Transform

_ORDERS = ("fast", "deterministic")
_LAST_BATCHES = ("uneven", "drop", "pad")


def build(
    uri: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    features: Features,
    *,
    batch_size: int | None = None,
    global_batch_size: int | None = None,
    transforms: Transform | Iterable[Transform] = (),
    filter: str = "",  # noqa: A002
    partitions: str = "",
    storage: str = "",
    last_batch: str | None = None,
    order: str = "fast",
    lanes: int | None = None,
    seed: int = 0,
    shuffle: bool = False,
    epochs: int | None = None,
    provenance: bool = False,
    on_error: str | Mapping[str, int] = "fail",
) -> Message:
    """The whole spec. Local paths become absolute: the processes that read them have other working directories."""
    if last_batch is not None and last_batch not in _LAST_BATCHES:
        raise SpecError(f'last_batch: found {last_batch!r}; give "uneven", "drop" or "pad"')
    if order not in _ORDERS:
        raise SpecError(f'order: found {order!r}; give "fast" or "deterministic"')
    steps = list(transforms) if isinstance(transforms, Iterable) else [transforms]
    given = {"batch_size": batch_size, "global_batch_size": global_batch_size, "lanes": lanes}
    sizes = {name: value for name, value in given.items() if value is not None}
    _check(features, steps, {**sizes, "epochs": 1 if epochs is None else epochs, "seed": seed})
    sizes = {name: int(value) for name, value in sizes.items()}
    uris = [uri] if isinstance(uri, (str, os.PathLike)) else list(uri)
    texts = {"filter": filter, "partitions": partitions, "storage": storage}
    for name, text in texts.items():
        if not isinstance(text, str):
            raise SpecError(f"{name}: found {text!r:.80}; give text")
    return without_none({
        "dataset": {"uri": [absolute(u) for u in uris], "storage": storage, "partitions": partitions},
        "filter": filter, "features": [f.message() for f in features], "transforms": [t.message() for t in steps],
        **sizes, "last_batch": last_batch and last_batch.upper(), "order": order.upper(), "seed": int(seed),
        "shuffle": bool(shuffle), "epochs": None if epochs is None else int(epochs), "provenance": bool(provenance),
        "on_error": _on_error(on_error),
    })  # fmt: skip


def _check(features: object, transforms: Iterable[object], integers: Mapping[str, object]) -> None:
    """Refuses what no message can hold, in words about the arguments."""
    if not isinstance(features, Features):
        raise SpecError(f"features: found {features!r:.80}; {_as_features(features)}")
    for step in transforms:
        if not isinstance(step, Transform):
            raise SpecError(f"transforms: found {step!r:.80}; give a list, as transforms=[penstock.log1p(...)]")
    for name, value in integers.items():
        if not isinstance(value, numbers.Integral):
            raise SpecError(f"{name}: found {value!r}; give an integer")
        if name != "seed" and value < 1:
            raise SpecError(f"{name}: found {value!r}; give 1 or more")


def _as_features(given: object) -> str:
    """How to write as features what was given instead."""
    names = [given] if isinstance(given, str) else given
    if isinstance(names, (list, tuple)) and names and all(isinstance(name, str) for name in names):
        return f"say what they become: penstock.dense({given!r}), or a sum as penstock.dense(...) + penstock.label(...)"
    return "add them up, as penstock.dense(...) + penstock.label(...)"


def _on_error(policy: object) -> Message | None:
    """What becomes of rows that no worker can read."""
    if policy == "fail":
        return None
    skip = policy.get("skip") if isinstance(policy, Mapping) and len(policy) == 1 else None
    if not isinstance(skip, numbers.Integral) or isinstance(skip, bool) or skip < 1:
        raise SpecError(f'on_error: found {policy!r}; give "fail", or {{"skip": N}} for at most N row groups')
    return {"skip": int(skip)}


def absolute(uri: str | os.PathLike[str]) -> str:
    """A URI as it is, and a local path made absolute; a slash at its end stays, since it says that it is a folder."""
    text = os.fspath(uri)
    if not text or "://" in text:
        return text
    text = os.path.expanduser(text)  # noqa: PTH111  (Path drops the slash)
    if os.path.isabs(text):  # noqa: PTH117
        return text
    clean = os.path.abspath(text)  # noqa: PTH100
    return clean + "/" if text.endswith("/") else clean


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
