"""Builders of a spec: which features become tensors, and the transforms before that.

    features = penstock.dense("int_*") + penstock.sparse("cat_*") + penstock.label("label")
    transforms = [penstock.fill_null("int_*", 0), penstock.sigrid_hash("cat_*", max=1_000_000)]

They make messages of api/pb/spec.proto, in protobuf's JSON, and check nothing but Python's own types: names, types and
parameters are the master's to check, which reports all mistakes at once as SpecError. Names may be globs; the language
is that of api/spec/README.md. There is one function for each op of the fleet (`penstock ops` lists them), and op() for
ops that a fleet of one's own adds.
"""

from __future__ import annotations

import functools
import inspect
import math
import numbers
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ParamSpec, TypeAlias

from penstock.errors import SpecError, UsageError

Names: TypeAlias = str | Sequence[str]
Scalar: TypeAlias = bool | int | float | str
Value: TypeAlias = Scalar | Sequence[Scalar]
Message: TypeAlias = dict[str, Any]
Call = ParamSpec("Call")

_ORDERS = ("fast", "deterministic")
_LAST_BATCHES = ("uneven", "drop", "pad")


@dataclass(frozen=True)
class Feature:
    """Columns, or results of transforms, that become tensors of one layout."""

    name: tuple[str, ...]  # or globs
    layout: str
    weights: str = ""
    shape: tuple[int, ...] = ()
    default: Message | None = None  # a Value

    def message(self) -> Message:
        """A Feature of the spec."""
        named = {"name": list(self.name), "layout": self.layout.upper(), "weights": self.weights}
        return _without_none({**named, "shape": [int(n) for n in self.shape], "default": self.default})


@dataclass(frozen=True)
class Transform:
    """An op that is applied to features: what log1p(), op() and so on return."""

    op: str
    inputs: tuple[str, ...] = ()
    out: str = ""  # "": it replaces the inputs
    params: Mapping[str, Message] = field(default_factory=dict)  # Values

    def message(self) -> Message:
        """A Transform of the spec."""
        return {"op": self.op, "in": list(self.inputs), "out": self.out, "params": dict(self.params)}


def _without_none(message: Message) -> Message:
    return {name: value for name, value in message.items() if value is not None}


class Features:
    """Features in the order in which they were added; `+` joins two."""

    __slots__ = ("_features",)

    def __init__(self, features: Iterable[Feature] = ()) -> None:
        self._features = tuple(features)

    def __add__(self, other: Features) -> Features:
        if not isinstance(other, Features):
            return NotImplemented
        return Features((*self._features, *other._features))

    def __iter__(self) -> Iterator[Feature]:
        return iter(self._features)

    def __len__(self) -> int:
        return len(self._features)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Features) and self._features == other._features

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = (f"{f.layout}({', '.join(map(repr, f.name))})" for f in self._features)
        return " + ".join(shown) or "Features()"


def dense(*names: Names, default: Scalar | None = None) -> Features:
    """Scalar numbers and bools, stacked with all other dense features into the one float32 [B, D] of batch.dense.

    Nulls are NaN. default is the value of rows whose file lacks the column.
    """
    return _features(names, "dense", default)


def sparse(*names: Names, weights: str = "", default: Value | None = None) -> Features:
    """Jagged ids or floats, a tensor each: batch.sparse[name] with values (int64 or float32) and offsets (int32 [B+1]).

    weights names a list feature that holds a float score for each value. A null row is empty.
    """
    return _features(names, "sparse", default, weights=weights)


def label(*names: Names, default: Scalar | None = None) -> Features:
    """Scalar numbers and bools, a tensor [B] each, of the feature's own type: batch.label, or batch.labels[name]."""
    return _features(names, "label", default)


def bytes_(*names: Names, default: str | None = None) -> Features:
    """Strings and byte arrays, one byte string a row: batch.bytes[name]. Null is empty."""
    return _features(names, "bytes", default)


def image(*names: Names, shape: tuple[int, int, int] | None = None) -> Features:
    """Images as batch.images[name]: pictures that decode_jpeg() and others made, or byte arrays of raw pixels.

    Raw pixels need their shape, (H, W, C), and have exactly H*W*C bytes: uint8 [B, H, W, C]. Pictures are that, too, or
    float32 after normalize(); with shape (C, H, W) they are [B, C, H, W].
    """
    return _features(names, "image", None, shape=tuple(shape or ()))


def _features(names: tuple[Names, ...], layout: str, default: Value | None, **more: Any) -> Features:
    flat = [name for given in names for name in _names(given)]
    if not flat or not all(isinstance(name, str) for name in flat):
        raise UsageError(
            f'{layout}() takes names or globs, but got {names!r}; write {layout}("a", "b_*") or {layout}(["a"])'
        )
    value = None if default is None else _value(default, "default")
    return Features([Feature(tuple(flat), layout, default=value, **more)])


def _names(given: Names) -> list[str]:
    """The names in their order, of which sets have none; what is no list of names stays, for whoever looks at each."""
    if isinstance(given, str) or not isinstance(given, Iterable) or isinstance(given, (bytes, Mapping, Set)):
        return [given]  # type: ignore[list-item]
    return list(given)


def _builder(build: Callable[Call, Transform]) -> Callable[Call, Transform]:
    """Answers a call with wrong parameters as the master answers such a spec."""
    signature = inspect.signature(build)
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    form = f"{build.__name__}{inspect.Signature(plain)}"

    @functools.wraps(build)
    def checked(*args: Call.args, **kwargs: Call.kwargs) -> Transform:
        try:
            signature.bind(*args, **kwargs)
        except TypeError as err:
            raise SpecError(f"{build.__name__}: {err}; the parameters are {form}") from None
        return build(*args, **kwargs)

    return checked


@_builder
def bucketize(in_: Names, borders: Sequence[float], *, out: str | None = None) -> Transform:
    """The index of the first border that is not below the number, or the count of borders (for NaN, too): int32.

    borders: at least one, in ascending order.
    """
    return op("bucketize", in_, out=out, borders=borders)


@_builder
def box_cox(in_: Names, lambda_: float, *, out: str | None = None) -> Transform:
    """(x^lambda - 1) / lambda, or ln(x) for 0; NaN below 0. float64 for float64, else float32."""
    return op("box_cox", in_, out=out, **{"lambda": lambda_})


@_builder
def cartesian(in_: Names, *, out: str, salt: int = 0, max: int | None = None) -> Transform:  # noqa: A002
    """Hashes each combination of one id of each feature into one id, as ngram() would: list<int64>."""
    return op("cartesian", in_, out=out, salt=salt, max=max)


@_builder
def cast(in_: Names, to: str, *, out: str | None = None) -> Transform:
    """Converts to bool, int32, int64, float32 or float64.

    Out of range gives the nearest value, fractions are cut off; NaN as int or bool and text that does not parse give
    null.
    """
    return op("cast", in_, out=out, to=to)


@_builder
def clamp(in_: Names, *, min: float | None = None, max: float | None = None, out: str | None = None) -> Transform:  # noqa: A002
    """Moves numbers below min to min and above max to max; NaN stays. For features of ints both must be ints."""
    return op("clamp", in_, out=out, min=min, max=max)


@_builder
def cosine_similarity(in_: Names, *, out: str) -> Transform:
    """The cosine of two lists of ids as vectors of their scores: float32. in_: ids, scores, other ids, their scores."""
    return op("cosine_similarity", in_, out=out)


@_builder
def enumerate(in_: Names, *, out: str | None = None, start: int = 0) -> Transform:  # noqa: A001
    """The places of each list's elements, from start on: list<int64>."""
    return op("enumerate", in_, out=out, start=start)


@_builder
def fill_null(in_: Names, value: Scalar, *, out: str | None = None) -> Transform:
    """Replaces null rows of a scalar, or null elements of a list, by a value of the feature's kind."""
    return op("fill_null", in_, out=out, value=value)


@_builder
def center_crop(in_: Names, size: int | Sequence[int], *, out: str | None = None) -> Transform:
    """Cuts the middle out of resized pictures: [height, width], or one number for both."""
    return op("center_crop", in_, out=out, size=size)


@_builder
def decode_image(in_: Names, *, mode: str = "rgb", upright: bool = False, out: str | None = None) -> Transform:
    """Makes pictures of files that each are JPEG or PNG, by their first bytes."""
    return op("decode_image", in_, out=out, mode=mode, upright=upright)


@_builder
def decode_jpeg(in_: Names, *, mode: str = "rgb", upright: bool = False, out: str | None = None) -> Transform:
    """Makes pictures of JPEG files: in mode "rgb" or "gray", turned as EXIF says if upright."""
    return op("decode_jpeg", in_, out=out, mode=mode, upright=upright)


@_builder
def decode_png(in_: Names, *, mode: str = "rgb", out: str | None = None) -> Transform:
    """Makes pictures of PNG files, in mode "rgb" or "gray", without alpha."""
    return op("decode_png", in_, out=out, mode=mode)


@_builder
def first_x(in_: Names, x: int, *, out: str | None = None) -> Transform:
    """The first x elements of each list, null ones included."""
    return op("first_x", in_, out=out, x=x)


@_builder
def has_overlap(in_: Names, *, out: str) -> Transform:
    """1 if two lists share an id, else 0: float32."""
    return op("has_overlap", in_, out=out)


@_builder
def id_overlap_count(in_: Names, *, out: str) -> Transform:
    """How many ids two lists share, each as often as in both: float32."""
    return op("id_overlap_count", in_, out=out)


@_builder
def intersect(in_: Names, *, out: str) -> Transform:
    """The elements of the first list that are in the second, too, each once: list<int64>."""
    return op("intersect", in_, out=out)


@_builder
def jaccard_similarity(in_: Names, *, out: str) -> Transform:
    """id_overlap_count() divided by the ids of both lists less those shared, NaN for two empty lists: float32."""
    return op("jaccard_similarity", in_, out=out)


@_builder
def local_hour(in_: Names, timezone: str, *, unit: str = "s", out: str | None = None) -> Transform:
    """The hour of the day, 0 to 23, of timestamps in a time zone such as "Europe/Berlin": int32.

    unit is what they count since 1970: "s", "ms", "us" or "ns", which for a column of timestamps must be its own.
    """
    return op("local_hour", in_, out=out, timezone=timezone, unit=unit)


@_builder
def flip(in_: Names, p: float = 0.5, *, seed: int = 0, out: str | None = None) -> Transform:
    """Mirrors each picture, left to right, with probability p, anew in each epoch."""
    return op("flip", in_, out=out, p=p, seed=seed)


@_builder
def log1p(in_: Names, *, out: str | None = None) -> Transform:
    """ln(1+x): -inf for -1, NaN below it. float64 for float64, else float32."""
    return op("log1p", in_, out=out)


@_builder
def logit(in_: Names, *, eps: float | None = None, out: str | None = None) -> Transform:
    """ln(x / (1-x)), of x moved into [eps, 1-eps] if eps is given. float64 for float64, else float32."""
    return op("logit", in_, out=out, eps=eps)


@_builder
def map_id(
    in_: Names,
    keys: Sequence[int] | Sequence[str] | None = None,
    *,
    values: Sequence[float] | None = None,
    first: int | None = None,
    count: int | None = None,
    default: float | None = None,
    out: str | None = None,
) -> Transform:
    """Looks ids or text up among keys, or in the range of count ids from first on: int64.

    Their values are values, or their places from 0 without it. What is no key becomes default, or null without it. With
    a float among these, such as the weight of a class, all are float32.
    """
    return op("map_id", in_, out=out, keys=keys, first=first, count=count, values=values, default=default)


@_builder
def ngram(in_: Names, n: int, *, out: str, salt: int = 0, max: int | None = None) -> Transform:  # noqa: A002
    """Joins the features' ids row by row and hashes each n consecutive ones into one id: list<int64>.

    Results lie in [0, max), or are any int64 without max.
    """
    return op("ngram", in_, out=out, n=n, salt=salt, max=max)


@_builder
def normalize(
    in_: Names, mean: float | Sequence[float], std: float | Sequence[float], *, out: str | None = None
) -> Transform:
    """(x - mean) / std, in float32; of a picture (x/255 - mean) / std, with numbers for each channel or for all."""
    return op("normalize", in_, out=out, mean=mean, std=std)


@_builder
def onehot(in_: Names, size: int, *, out: str | None = None) -> Transform:
    """A list of size floats for each row: 1 at each of its ids, 0 elsewhere. Nulls and other ids leave zeros."""
    return op("onehot", in_, out=out, size=size)


@_builder
def positive_modulus(in_: Names, modulus: int, *, out: str | None = None) -> Transform:
    """The remainder of the division by modulus, in [0, modulus) for negative ids, too: int64."""
    return op("positive_modulus", in_, out=out, modulus=modulus)


@_builder
def random_resized_crop(
    in_: Names,
    size: int | Sequence[int],
    *,
    scale: Sequence[float] = (0.08, 1.0),
    ratio: Sequence[float] = (3 / 4, 4 / 3),
    seed: int = 0,
    out: str | None = None,
) -> Transform:
    """Resizes a random part of each picture to size, [height, width] or both, as torchvision's RandomResizedCrop."""
    return op("random_resized_crop", in_, out=out, size=size, scale=scale, ratio=ratio, seed=seed)


@_builder
def resize(in_: Names, size: int | Sequence[int], *, out: str | None = None) -> Transform:
    """Resizes pictures to [height, width], or the shorter side to one number: bilinear with antialiasing, as Pillow."""
    return op("resize", in_, out=out, size=size)


@_builder
def sample(rate: float, *, seed: int = 0) -> Transform:
    """Keeps each row with probability rate, anew in each epoch.

    Samples of one seed overlap: to split a dataset, use filter="hash(user_id, 7) % 100 < 90", and ">= 90".
    """
    return op("sample", (), rate=rate, seed=seed)


@_builder
def scale_to_0_1(in_: Names, *, min: float, max: float, out: str | None = None) -> Transform:  # noqa: A002
    """(x - min) / (max - min); what lies outside stays outside. float64 for float64, else float32."""
    return op("scale_to_0_1", in_, out=out, min=min, max=max)


@_builder
def scale_to_z_score(in_: Names, mean: float, std: float, *, out: str | None = None) -> Transform:
    """(x - mean) / std; like normalize(), but float64 stays float64."""
    return op("scale_to_z_score", in_, out=out, mean=mean, std=std)


@_builder
def score_max(in_: Names, *, out: str) -> Transform:
    """The greatest score of ids that two lists share, else 0: float32. in_: ids, other ids, their scores."""
    return op("score_max", in_, out=out)


@_builder
def score_min(in_: Names, *, out: str) -> Transform:
    """The least score of ids that two lists share, else 0: float32. in_: ids, other ids, their scores."""
    return op("score_min", in_, out=out)


@_builder
def score_sum(in_: Names, *, out: str) -> Transform:
    """The sum of the scores of ids that two lists share: float32. in_: ids, other ids, their scores."""
    return op("score_sum", in_, out=out)


@_builder
def sigrid_hash(in_: Names, *, max: int, salt: int = 0, out: str | None = None) -> Transform:  # noqa: A002
    """Hashes ids into [0, max), as TorchArrow's functional.sigrid_hash; text by its XXH64. int64."""
    return op("sigrid_hash", in_, out=out, salt=salt, max=max)


@_builder
def sort_by_score(in_: Names, *, out: str, ascending: bool = False) -> Transform:
    """Sorts each list by its scores, the greatest first, null and NaN last. in_: the list and its scores, or scores."""
    return op("sort_by_score", in_, out=out, ascending=ascending)


@_builder
def union(in_: Names, *, out: str) -> Transform:
    """The elements of the first list and then those of the second, each once: list<int64>."""
    return op("union", in_, out=out)


def op(name: str, in_: Names = (), /, *, out: str | None = None, **params: Value | None) -> Transform:
    """A transform by any op, by its name; parameters that are None are left out.

    Without out the result replaces the input; "{}" in it stands for the input's name.
    """
    names = _names(in_)
    if not all(isinstance(each, str) for each in names):
        raise SpecError(
            f'{name}: in_: found {in_!r:.80}; give a name, a glob or a list of these, as {name}(["a", "b_*"])'
        )
    given = {key: _value(value, f"{name}: {key}") for key, value in params.items() if value is not None}
    return Transform(name, tuple(names), out or "", given)


def _value(value: Value, where: str) -> Message:
    """A message of a Python or NumPy value."""
    if isinstance(value, str):
        return {"text": value}
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return {"bool": bool(value)}
    if isinstance(value, numbers.Integral):
        if not -(1 << 63) <= int(value) < 1 << 63:
            raise SpecError(f"{where}: {value} does not fit into 64 bits; give a smaller number")
        return {"int": int(value)}
    if isinstance(value, numbers.Real):
        return {"float": _float(float(value))}
    if isinstance(value, Iterable) and not isinstance(value, (bytes, bytearray, Mapping)):
        return _list(list(value), where)
    raise SpecError(f"{where}: found a {type(value).__name__}; give an int, float, str, bool or a list of these")


def _float(value: float) -> float | str:
    """A number as protobuf's JSON has it, which JSON's own numbers do not suffice for."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _list(values: list[Scalar], where: str) -> Message:
    """A list in the form that is meant for its elements: see List in api/pb/spec.proto."""
    floats = [v for v in values if type(v) is float]
    if values and len(floats) == len(values):
        return {"floats": {"values": [_float(v) for v in floats]}}
    elements = [_value(v, where) for v in values]
    kinds = {kind for e in elements for kind in e}
    if kinds == {"int"}:
        return {"ints": {"values": [e["int"] for e in elements]}}
    if kinds and kinds <= {"float", "int"} and all(abs(e.get("int", 0)) <= 1 << 53 for e in elements):
        return {"floats": {"values": [e["float"] if "float" in e else float(e["int"]) for e in elements]}}
    return {"list": {"values": elements}}


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
    return _without_none({
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
