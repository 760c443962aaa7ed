"""Builders of transforms: one for each op of the fleet (`penstock ops` lists them), and op() for ops that it adds.

    transforms = [penstock.fill_null("int_*", 0), penstock.sigrid_hash("cat_*", max=1_000_000)]

They check nothing but Python's own types: names, types and parameters are the master's to check, which reports all
mistakes at once as SpecError. Names may be globs.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ParamSpec

from penstock._values import Message, Names, Scalar, Value, names_of, value_of
from penstock.errors import SpecError

Call = ParamSpec("Call")


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
def clamp(
    in_: Names,
    *,
    min: float | None = None,  # noqa: A002
    max: float | None = None,  # noqa: A002
    out: str | None = None,
) -> Transform:
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
    names = names_of(in_)
    if not all(isinstance(each, str) for each in names):
        raise SpecError(
            f'{name}: in_: found {in_!r:.80}; give a name, a glob or a list of these, as {name}(["a", "b_*"])'
        )
    given = {key: value_of(value, f"{name}: {key}") for key, value in params.items() if value is not None}
    return Transform(name, tuple(names), out or "", given)
