"""Builders of a spec: which features become tensors, and the transforms before that.

    features = penstock.dense("int_*") + penstock.sparse("cat_*") + penstock.label("label")
    transforms = [penstock.fill_null("int_*", 0), penstock.sigrid_hash("cat_*", max=1_000_000)]

They make messages of api/pb/spec.proto and check nothing but Python's own types: names, types and parameters are the
master's to check, which reports all mistakes at once as SpecError. Names may be globs; the language is that of
api/spec/README.md. There is one function for each op of the fleet (`penstock ops` lists them), and op() for ops that a
fleet of one's own adds.
"""

from __future__ import annotations

import numbers
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from penstock._pb import spec_pb2 as pb
from penstock.errors import SpecError, UsageError

Names: TypeAlias = str | Sequence[str]
Scalar: TypeAlias = bool | int | float | str
Value: TypeAlias = Scalar | Sequence[Scalar]
Transform: TypeAlias = pb.Transform

_ORDER = {"fast": pb.FAST, "deterministic": pb.DETERMINISTIC}
_LAST_BATCH = {"uneven": pb.UNEVEN, "drop": pb.DROP, "pad": pb.PAD}


class Features:
    """Features in the order in which they were added; `+` joins two."""

    __slots__ = ("_features",)

    def __init__(self, features: Iterable[pb.Feature] = ()) -> None:
        self._features = tuple(features)

    def __add__(self, other: Features) -> Features:
        if not isinstance(other, Features):
            return NotImplemented
        return Features((*self._features, *other._features))

    def __iter__(self) -> Iterator[pb.Feature]:
        return iter(self._features)

    def __len__(self) -> int:
        return len(self._features)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Features) and self._features == other._features

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = (f"{pb.Layout.Name(f.layout).lower()}({', '.join(map(repr, f.name))})" for f in self._features)
        return " + ".join(shown) or "Features()"


def dense(*names: str, default: Scalar | None = None) -> Features:
    """Scalar numbers and bools, stacked with all other dense features into the one float32 [B, D] of batch.dense.

    Nulls are NaN. default is the value of rows whose file lacks the column.
    """
    return _features(names, pb.DENSE, default)


def sparse(*names: str, weights: str = "", default: Value | None = None) -> Features:
    """Jagged ids or floats, a tensor each: batch.sparse[name] with values (int64 or float32) and offsets (int32 [B+1]).

    weights names a list feature that holds a float score for each value. A null row is empty.
    """
    made = _features(names, pb.SPARSE, default)
    for feature in made:
        feature.weights = weights
    return made


def label(*names: str, default: Scalar | None = None) -> Features:
    """Scalar numbers and bools, a tensor [B] each, of the feature's own type: batch.label, or batch.labels[name]."""
    return _features(names, pb.LABEL, default)


def bytes_(*names: str, default: str | None = None) -> Features:
    """Strings and byte arrays, one byte string a row: batch.bytes[name]. Null is empty."""
    return _features(names, pb.BYTES, default)


def image(*names: str, shape: tuple[int, int, int]) -> Features:
    """Byte arrays of exactly H*W*C bytes, as uint8 [B, H, W, C]: batch.images[name]. shape is (H, W, C)."""
    made = _features(names, pb.IMAGE, None)
    for feature in made:
        feature.shape.extend(shape)
    return made


def _features(names: tuple[str, ...], layout: pb.Layout, default: Value | None) -> Features:
    if not names or not all(isinstance(name, str) for name in names):
        kind = pb.Layout.Name(layout).lower()
        raise UsageError(f'{kind}() takes names or globs, but got {names!r}; write {kind}("a", "b_*")')
    feature = pb.Feature(name=names, layout=layout)
    if default is not None:
        feature.default.CopyFrom(_value(default, "default"))
    return Features([feature])


def bucketize(in_: Names, borders: Sequence[float], *, out: str | None = None) -> Transform:
    """The index of the first border that is not below the number, or the count of borders (for NaN, too): int32.

    borders: at least one, in ascending order.
    """
    return op("bucketize", in_, out=out, borders=borders)


def cast(in_: Names, to: str, *, out: str | None = None) -> Transform:
    """Converts to bool, int32, int64, float32 or float64.

    Out of range gives the nearest value, fractions are cut off; NaN as int or bool and text that does not parse give
    null.
    """
    return op("cast", in_, out=out, to=to)


def clamp(in_: Names, *, min: float | None = None, max: float | None = None, out: str | None = None) -> Transform:  # noqa: A002
    """Moves numbers below min to min and above max to max; NaN stays. For features of ints both must be ints."""
    return op("clamp", in_, out=out, min=min, max=max)


def fill_null(in_: Names, value: Scalar, *, out: str | None = None) -> Transform:
    """Replaces null rows of a scalar, or null elements of a list, by a value of the feature's kind."""
    return op("fill_null", in_, out=out, value=value)


def first_x(in_: Names, x: int, *, out: str | None = None) -> Transform:
    """The first x elements of each list, null ones included."""
    return op("first_x", in_, out=out, x=x)


def log1p(in_: Names, *, out: str | None = None) -> Transform:
    """ln(1+x): -inf for -1, NaN below it. float64 for float64, else float32."""
    return op("log1p", in_, out=out)


def ngram(in_: Names, n: int, *, out: str, salt: int = 0, max: int | None = None) -> Transform:  # noqa: A002
    """Joins the features' ids row by row and hashes each n consecutive ones into one id: list<int64>.

    Results lie in [0, max), or are any int64 without max.
    """
    return op("ngram", in_, out=out, n=n, salt=salt, max=max)


def normalize(in_: Names, mean: float, std: float, *, out: str | None = None) -> Transform:
    """(x - mean) / std, in float32."""
    return op("normalize", in_, out=out, mean=mean, std=std)


def sample(rate: float, *, seed: int = 0) -> Transform:
    """Keeps each row with probability rate, anew in each epoch; two samples of one seed keep the same rows."""
    return op("sample", (), rate=rate, seed=seed)


def sigrid_hash(in_: Names, *, max: int, salt: int = 0, out: str | None = None) -> Transform:  # noqa: A002
    """Hashes ids into [0, max), as TorchArrow's functional.sigrid_hash; text by its XXH64. int64."""
    return op("sigrid_hash", in_, out=out, salt=salt, max=max)


def op(name: str, in_: Names = (), /, *, out: str | None = None, **params: Value | None) -> Transform:
    """A transform by any op, by its name; parameters that are None are left out.

    Without out the result replaces the input; "{}" in it stands for the input's name.
    """
    return pb.Transform(
        op=name,
        out=out or "",
        params={key: _value(value, f"{name}: {key}") for key, value in params.items() if value is not None},
        **{"in": [in_] if isinstance(in_, str) else list(in_)},
    )


def _value(value: Value, where: str) -> pb.Value:
    """A message of a Python or NumPy value."""
    if isinstance(value, str):
        return pb.Value(text=value)
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return pb.Value(bool=bool(value))
    if isinstance(value, numbers.Integral):
        if not -(1 << 63) <= int(value) < 1 << 63:
            raise SpecError(f"{where}: {value} does not fit into 64 bits; give a smaller number")
        return pb.Value(int=int(value))
    if isinstance(value, numbers.Real):
        return pb.Value(float=float(value))
    if isinstance(value, Iterable) and not isinstance(value, (bytes, bytearray, Mapping)):
        return pb.Value(list=pb.List(values=[_value(v, where) for v in value]))
    raise SpecError(f"{where}: found a {type(value).__name__}; give an int, float, str, bool or a list of these")


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
    last_batch: str = "uneven",
    order: str = "fast",
    lanes: int | None = None,
    seed: int = 0,
    shuffle: bool = False,
    epochs: int = 1,
    provenance: bool = False,
    on_error: str | Mapping[str, int] = "fail",
) -> pb.Spec:
    """The whole spec. Local paths become absolute: the processes that read them have other working directories."""
    if last_batch not in _LAST_BATCH:
        raise SpecError(f'last_batch: found {last_batch!r}; give "uneven", "drop" or "pad"')
    if order not in _ORDER:
        raise SpecError(f'order: found {order!r}; give "fast" or "deterministic"')
    steps = list(transforms) if isinstance(transforms, Iterable) else [transforms]
    given = {"batch_size": batch_size, "global_batch_size": global_batch_size, "lanes": lanes}
    sizes = {name: value for name, value in given.items() if value is not None}
    _check(features, steps, {**sizes, "epochs": epochs, "seed": seed})
    uris = [uri] if isinstance(uri, (str, os.PathLike)) else list(uri)
    try:
        return pb.Spec(
            dataset=pb.Dataset(uri=[absolute(u) for u in uris], storage=storage, partitions=partitions),
            filter=filter,
            features=list(features),
            transforms=steps,
            **sizes,
            last_batch=_LAST_BATCH[last_batch],
            order=_ORDER[order],
            seed=seed,
            shuffle=shuffle,
            epochs=epochs,
            provenance=provenance,
            on_error=_on_error(on_error),
        )
    except (TypeError, ValueError) as err:
        raise SpecError(f"the spec: {err}; see the types of penstock.DataLoader's parameters") from err


def _check(features: object, transforms: Iterable[object], integers: Mapping[str, object]) -> None:
    """Refuses what no message can hold, in words about the arguments."""
    if not isinstance(features, Features):
        raise SpecError(f"features: found {features!r:.80}; add them up, as penstock.dense(...) + penstock.label(...)")
    for step in transforms:
        if not isinstance(step, Transform):
            raise SpecError(f"transforms: found {step!r:.80}; give a list, as transforms=[penstock.log1p(...)]")
    for name, value in integers.items():
        if not isinstance(value, numbers.Integral):
            raise SpecError(f"{name}: found {value!r}; give an integer")
        if name != "seed" and value < 1:
            raise SpecError(f"{name}: found {value!r}; give 1 or more")


def _on_error(policy: object) -> pb.OnError | None:
    """What becomes of rows that no worker can read."""
    if policy == "fail":
        return None
    skip = policy.get("skip") if isinstance(policy, Mapping) and len(policy) == 1 else None
    if not isinstance(skip, numbers.Integral) or isinstance(skip, bool) or skip < 1:
        raise SpecError(f'on_error: found {policy!r}; give "fail", or {{"skip": N}} for at most N row groups')
    return pb.OnError(skip=int(skip))


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
