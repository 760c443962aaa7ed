"""Builders of features: which columns become tensors, and of which layout.

    features = penstock.dense("int_*") + penstock.sparse("cat_*") + penstock.label("label")

They check nothing but Python's own types. Names may be globs; the language is that of docs/reference/spec.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock._values import Message, Names, Scalar, Value, check_integer, names_of, value_of, without_none
from penstock.errors import SpecError, UsageError

DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "float16", "bfloat16", "float32", "float64",
)  # fmt: skip


_MOST = 2**31 - 1  # of what a row has


@dataclass(frozen=True)
class Feature:
    """Columns, or results of transforms, that become tensors of one layout.

    Fields that are "", 0 or None are the spec's defaults.
    """

    name: tuple[str, ...]  # or globs
    layout: str
    weights: str = ""
    shape: tuple[int, ...] = ()
    default: Message | None = None  # a Value
    dtype: str = ""
    length: int = 0
    side: str = ""
    truncate: str = ""
    value: Message | None = None
    nulls: str = ""

    def message(self) -> Message:
        """A Feature of the spec. Fields of later releases are there if they say something: fingerprints stay."""
        named = {"name": list(self.name), "layout": self.layout.upper(), "weights": self.weights}
        later = {
            "dtype": self.dtype.upper() or None, "length": self.length or None, "side": self.side.upper() or None,
            "truncate": self.truncate.upper() or None, "value": self.value, "nulls": self.nulls.upper() or None,
        }  # fmt: skip
        return without_none({**named, "shape": [int(n) for n in self.shape], "default": self.default, **later})


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

    Nulls are NaN.

    Args:
        *names: names of columns or results of transforms, or globs of them.
        default: the value of rows whose file lacks the column.
    """
    return _features(names, "dense", default)


def sparse(
    *names: Names, weights: str = "", default: Value | None = None, nulls: str = "omit", value: Scalar | None = None
) -> Features:
    """Jagged ids or floats, a tensor each: batch.sparse[name] with values (int64 or float32) and offsets (int32 [B+1]).

    A null row is empty.

    Args:
        *names: names of columns or results of transforms, or globs of them.
        weights: names a list feature that holds a float score for each value.
        default: the value, or list of values, of rows whose file lacks the column.
        nulls: what becomes of null elements of lists: "omit" leaves them out, with their weights; "keep" has `value` in
            their places, so that lists stay as long as they are.
        value: what null elements are under nulls="keep": NaN of floats and 0 of ints unless it is given.

    Raises:
        SpecError: nulls is neither "omit" nor "keep".
    """
    _check_word("nulls", nulls, ("omit", "keep"))
    kept = None if value is None else value_of(value, "value")
    return _features(names, "sparse", default, weights=weights, nulls="" if nulls == "omit" else nulls, value=kept)


def label(*names: Names, default: Scalar | None = None) -> Features:
    """Scalar numbers and bools, a tensor [B] each, of the feature's own type: batch.label, or batch.labels[name].

    Args:
        *names: names of columns or results of transforms, or globs of them.
        default: the value of rows whose file lacks the column.
    """
    return _features(names, "label", default)


def bytes_(*names: Names, default: str | Sequence[str] | None = None) -> Features:
    """Strings and byte arrays, one byte string a row or lists of them: batch.bytes[name].

    A null is empty: a null row of a list an empty list, a null in it an empty byte string.

    Args:
        *names: names of columns or results of transforms, or globs of them.
        default: the value, or list of values, of rows whose file lacks the column.
    """
    return _features(names, "bytes", default)


def image(*names: Names, shape: tuple[int, int, int] | None = None) -> Features:
    """Images as batch.images[name]: pictures that decode_jpeg() and others made, or byte arrays of raw pixels.

    Args:
        *names: names of columns or results of transforms, or globs of them.
        shape: of raw pixels, (H, W, C): each row has exactly H*W*C bytes, and the tensor is uint8 [B, H, W, C].
            Pictures need none: they are that, too, or float32 after normalize(). With shape (C, H, W) they are
            [B, C, H, W].
    """
    return _features(names, "image", None, shape=tuple(shape or ()))


def tensor(
    *names: Names, shape: int | Sequence[int] | None = None, dtype: Any = None, default: Scalar | None = None
) -> Features:
    """Rows of one shape, such as embeddings: batch.tensors[name], [B, *shape], in the column's own dtype.

    It takes lists of numbers or bools that all have the shape, lists of lists, single values ([B]), and byte strings
    that hold raw values. Nothing becomes float32 on the way: dtypes are bool, int8 to int64, uint8 to uint32, float16,
    bfloat16, float32 and float64. A row of another length, and a null, is an error that names file and row.

    Args:
        *names: names of columns or results of transforms, or globs of them.
        shape: of a row, such as 768 or (2, 3), row-major. Leave it out if the files say it (fixed-size lists), and of
            single values.
        dtype: of byte strings, what their bytes are, little-endian: a name such as "float16", or what NumPy, torch or
            ml_dtypes have of that name. Other columns have their own.
        default: what nulls are, in place of an error: each value of a null row, and each null value of a list. A row
            whose file lacks the column is null.

    Raises:
        SpecError: shape or dtype is none. What does not go with the column raises it when the loader opens.
    """
    several = isinstance(shape, Iterable) and not isinstance(shape, str)
    sizes: tuple[Any, ...] = () if shape is None else tuple(shape) if several else (shape,)  # type: ignore[arg-type]
    for n in sizes:
        check_integer("shape", n, least=1, most=_MOST)
    return _features(names, "tensor", default, shape=tuple(map(int, sizes)), dtype=_dtype(dtype))


def padded(
    *names: Names,
    length: int,
    side: str = "left",
    value: Scalar = 0,
    truncate: str = "last",
    nulls: str = "keep",
    default: Value | None = None,
) -> Features:
    """Lists cut or filled to one length, such as a user's last items: batch.padded[name], in the list's own dtype.

    It has values [B, length], lengths (int32 [B]) and a mask (bool [B, length]), and takes lists of numbers or bools.
    A null row has length 0.

    Args:
        *names: names of columns or results of transforms, or globs of them.
        length: values of each row.
        side: where the padding lies: "left", so that values end together, or "right".
        value: of the padding.
        truncate: which values of longer lists stay: the "last" or the "first".
        nulls: what becomes of null elements: "keep" has `value` in their places, "omit" leaves them out.
        default: the value, or list of values, of rows whose file lacks the column.

    Raises:
        SpecError: length is not an integer from 1 on, or side, truncate or nulls is another word. What does not go with
            the column raises it when the loader opens.
    """
    check_integer("length", length, least=1, most=_MOST)
    _check_word("side", side, ("left", "right"))
    _check_word("truncate", truncate, ("last", "first"))
    _check_word("nulls", nulls, ("keep", "omit"))
    fill = value_of(value, "value")
    return _features(
        names, "padded", default, length=int(length), side="" if side == "left" else side,
        truncate="" if truncate == "last" else truncate, nulls="" if nulls == "keep" else nulls,
        value=None if fill == {"int": 0} else fill,
    )  # fmt: skip


def _check_word(name: str, value: object, words: tuple[str, str]) -> None:
    if value not in words:
        raise SpecError(f'{name}: found {value!r}; give "{words[0]}" or "{words[1]}"')


def _dtype(given: Any) -> str:
    """The name of a dtype of NumPy, torch or ml_dtypes, or "" of none."""
    if given is None:
        return ""
    name = given if isinstance(given, str) else str(given).removeprefix("torch.")
    if name not in DTYPES:
        try:
            made = np.dtype(given)
        except (TypeError, ValueError):
            made = None
        name = made.name if made is not None and made.isnative else ""
    if name not in DTYPES:
        raise SpecError(f"dtype: found {given!r:.80}; give one of {', '.join(DTYPES)}")
    return name


def _features(names: tuple[Names, ...], layout: str, default: Value | None, **more: Any) -> Features:
    flat = [name for given in names for name in names_of(given)]
    if not flat or not all(isinstance(name, str) for name in flat):
        raise UsageError(
            f'{layout}() takes names or globs, but got {names!r}; write {layout}("a", "b_*") or {layout}(["a"])'
        )
    value = None if default is None else value_of(default, "default")
    return Features([Feature(tuple(flat), layout, default=value, **more)])
