"""Builders of transforms: one for each op of the fleet (`penstock ops` lists them), and op() for all others.

    transforms = [penstock.fill_null("int_*", 0), penstock.sigrid_hash("cat_*", max=1_000_000)]

They check nothing but Python's own types: names, types and parameters are the master's to check, which reports all
mistakes at once as SpecError. Names may be globs.

The result replaces in_ unless out names it; where an op takes each name by itself, "{}" in out stands for that name.
A scalar has one value a row, a list any number; nulls stay null unless an op says otherwise. Where reading fails, the
error names the file, the row and the op.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, ParamSpec, overload

from penstock._named import named
from penstock._op import Op, Transform, python
from penstock._values import Fit, Names, Scalar, Value, names_of, value_of
from penstock.errors import SpecError

Call = ParamSpec("Call")


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


# begin: written by `make generate`


@_builder
def box_cox(in_: Names, lambda_: float, *, out: str | None = None) -> Transform:
    """(x^lambda - 1) / lambda, or ln(x) if lambda is 0; NaN below 0.

    Ints count as float32.

    Args:
        in_: scalar or list of numbers; of several names each by itself.
        lambda_: a number: finite.
        out: name of the result; by default it replaces the input.

    Returns:
        A transform whose result is float64 for float64, else float32; scalar or list like the input.
    """
    return op("box_cox", in_, out=out, **{"lambda": lambda_})


@_builder
def bucketize(in_: Names, borders: Sequence[float] | Fit, *, out: str | None = None) -> Transform:
    """The index of the first border that is not below the number, or the count of borders (for NaN, too).

    Args:
        in_: scalar or list of numbers; of several names each by itself.
        borders: a list of numbers: at least one, in ascending order.
        out: name of the result; by default it replaces the input.

    Returns:
        A transform whose result is int32, scalar or list like the input.
    """
    return op("bucketize", in_, out=out, borders=borders)


@_builder
def cartesian(in_: Names, *, out: str, salt: int = 0, max: int | None = None) -> Transform:  # noqa: A002
    """Hashes each combination of one id of each feature into one id, as ngram would.

    The last feature's ids change fastest. Reading fails at a row of so many combinations that a window would have more
    than 2^26.

    Args:
        in_: two or more scalars or lists of ints.
        salt: an int, by default 0: makes hashes of the same ids differ.
        max: a positive int, or None: results lie in [0, max); left out: any int64.
        out: name of the result.

    Returns:
        A transform whose result is list<int64>, never null.
    """
    return op("cartesian", in_, out=out, salt=salt, max=max)


@_builder
def cast(in_: Names, to: str, *, out: str | None = None) -> Transform:
    """Converts to another kind.

    Out of range gives the nearest value, fractions are cut off, NaN as int or bool and text that does not parse give
    null.

    Args:
        in_: scalar or list of anything; of several names each by itself.
        to: one of bool, int32, int64, float32, float64: the new kind.
        out: name of the result; by default it replaces the input.

    Returns:
        A transform whose result is scalar or list, like the input, of the kind to.
    """
    return op("cast", in_, out=out, to=to)


@_builder
def center_crop(in_: Names, size: int | Sequence[int], *, out: str | None = None) -> Transform:
    """Cuts out the middle of resized pictures.

    Args:
        in_: pictures; of several names each by itself.
        size: a list of numbers: [height, width], or one number for both.
        out: name of the result; by default it replaces the input.

    Returns:
        A transform whose result is pictures.
    """
    return op("center_crop", in_, out=out, size=size)


@_builder
def clamp(
    in_: Names,
    *,
    min: float | Fit | None = None,  # noqa: A002
    max: float | Fit | None = None,  # noqa: A002
    out: str | None = None,
) -> Transform:
    """Moves numbers below min to min and above max to max; NaN stays.

    Args:
        in_: scalar or list of numbers; of several names each by itself.
        min: a number, or None: least result; an int for features of ints.
        max: a number, or None: greatest result; an int for features of ints.
        out: name of the result; by default it replaces the input.

    Returns:
        A transform whose result is the input's type.
    """
    return op("clamp", in_, out=out, min=min, max=max)


@_builder
def cosine_similarity(in_: Names, *, out: str) -> Transform:
    """The cosine of two lists of ids as vectors of their scores.

    Those of one id are summed, as TorchArrow's functional.get_cosine_similarity; NaN for a vector of length 0. Reading
    fails at a row that has more or fewer scores than ids.

    Args:
        in_: ids, their scores, other ids, their scores: scalars or lists of ints and of numbers.
        out: name of the result.

    Returns:
        A transform whose result is float32; null if an input, or an element of one, is null.
    """
    return op("cosine_similarity", in_, out=out)


@_builder
def decode_image(in_: Names, *, mode: str = "rgb", upright: bool = False, out: str | None = None) -> Transform:
    """Makes pictures of files that each are JPEG or PNG, by their first bytes.

    Reading fails at a row that is no such picture, or a damaged one.

    Args:
        in_: binary scalar, an encoded picture a row; of several names each by itself.
        mode: one of rgb, gray, by default "rgb": channels: red, green and blue, or luminance.
        upright: True or False, by default False: turn JPEGs as the orientation in their EXIF says.
        out: name of the result; by default it replaces the input.

    Returns:
        A transform whose result is pictures.
    """
    return op("decode_image", in_, out=out, mode=mode, upright=upright)


@_builder
def decode_jpeg(in_: Names, *, mode: str = "rgb", upright: bool = False, out: str | None = None) -> Transform:
    """Makes pictures of JPEG files, baseline or progressive: the pixels that libjpeg-turbo makes.

    Reading fails at a row that is no such picture, or a damaged one.

    Args:
        in_: binary scalar, an encoded picture a row; of several names each by itself.
        mode: one of rgb, gray, by default "rgb": channels: red, green and blue, or luminance.
        upright: True or False, by default False: turn JPEGs as the orientation in their EXIF says.
        out: name of the result; by default it replaces the input.

    Returns:
        A transform whose result is pictures.
    """
    return op("decode_jpeg", in_, out=out, mode=mode, upright=upright)


@_builder
def decode_png(in_: Names, *, mode: str = "rgb", out: str | None = None) -> Transform:
    """Makes pictures of PNG files; alpha and the lower 8 of 16 bits are left out.

    Reading fails at a row that is no such picture, or a damaged one.

    Args:
        in_: binary scalar, an encoded picture a row; of several names each by itself.
        mode: one of rgb, gray, by default "rgb": channels: red, green and blue, or luminance.
        out: name of the result; by default it replaces the input.

    Returns:
        A transform whose result is pictures.
    """
    return op("decode_png", in_, out=out, mode=mode)


@_builder
def enumerate(in_: Names, *, start: int = 0, out: str | None = None) -> Transform:  # noqa: A001
    """The places of each list's elements, from start on; null elements have places, too.

    Args:
        in_: list of anything; of several names each by itself.
        start: an int, by default 0: place of the first element.
        out: name of the result; by default it replaces the input.

    Returns:
        A transform whose result is list<int64> of the input's lengths.
    """
    return op("enumerate", in_, out=out, start=start)


@_builder
def expr(expr: str, *, out: str) -> Transform:
    """Computes a feature by an expression over columns and features, such as price / nullif(age, 0).

    Args:
        expr: a text: see the page Expressions of the reference.
        out: name of the result.

    Returns:
        A transform whose result is scalar of the type that the expression has.
    """
    return op("expr", (), out=out, expr=expr)


@_builder
def fill_null(in_: Names, value: Scalar | Fit, *, out: str | None = None) -> Transform:
    """Replaces null rows of a scalar, or null elements of a list, by a value; a null list stays null.

    Args:
        in_: scalar or list of anything; of several names each by itself.
        value: a number, text or bool: of the feature's kind.
        out: name of the result; by default it replaces the input.

    Returns:
        A transform whose result is the input's type.
    """
    return op("fill_null", in_, out=out, value=value)


@_builder
def first_x(in_: Names, x: int, *, out: str | None = None) -> Transform:
    """The first x elements of each list, null ones included.

    Args:
        in_: list of anything; of several names each by itself.
        x: a positive int: greatest length.
        out: name of the result; by default it replaces the input.

    Returns:
        A transform whose result is the input's type.
    """
    return op("first_x", in_, out=out, x=x)


@_builder
def flip(in_: Names, p: float = 0.5, *, seed: int = 0, out: str | None = None) -> Transform:
    """Mirrors each picture, left to right, with probability p, anew in each epoch.

    Args:
        in_: pictures; of several names each by itself.
        p: a number from 0 to 1, by default 0.5.
        seed: an int, by default 0: beside the spec's seed.
        out: name of the result; by default it replaces the input.

    Returns:
        A transform whose result is pictures.
    """
    return op("flip", in_, out=out, p=p, seed=seed)


@_builder
def has_overlap(in_: Names, *, out: str) -> Transform:
    """1 if the lists share an id, else 0, as TorchArrow's functional.has_id_overlap.

    Args:
        in_: two scalars or lists of ints.
        out: name of the result.

    Returns:
        A transform whose result is float32; null if an input, or an element of one, is null.
    """
    return op("has_overlap", in_, out=out)


@_builder
def id_overlap_count(in_: Names, *, out: str) -> Transform:
    """How many ids the lists share, each as often as in both, as TorchArrow's functional.id_overlap_count.

    Args:
        in_: two scalars or lists of ints.
        out: name of the result.

    Returns:
        A transform whose result is float32; null if an input, or an element of one, is null.
    """
    return op("id_overlap_count", in_, out=out)


@_builder
def intersect(in_: Names, *, out: str) -> Transform:
    """The elements of the first list that are in the second, too, each once, in the first's order.

    Args:
        in_: two scalars or lists of ints.
        out: name of the result.

    Returns:
        A transform whose result is list<int64>; null if an input is null; a null element counts as a value.
    """
    return op("intersect", in_, out=out)


@_builder
def jaccard_similarity(in_: Names, *, out: str) -> Transform:
    """id_overlap_count divided by the ids of both lists less those shared.

    NaN for two empty lists, as TorchArrow's functional.get_jaccard_similarity.

    Args:
        in_: two scalars or lists of ints.
        out: name of the result.

    Returns:
        A transform whose result is float32; null if an input, or an element of one, is null.
    """
    return op("jaccard_similarity", in_, out=out)


@_builder
def last_x(in_: Names, x: int, *, out: str | None = None) -> Transform:
    """The last x elements of each list, null ones included.

    Args:
        in_: list of anything; of several names each by itself.
        x: a positive int: greatest length.
        out: name of the result; by default it replaces the input.

    Returns:
        A transform whose result is the input's type.
    """
    return op("last_x", in_, out=out, x=x)


@_builder
def local_hour(in_: Names, timezone: str, *, unit: str = "s", out: str | None = None) -> Transform:
    """The hour of the day, 0 to 23, of timestamps in a time zone.

    It goes by release 2025c of the IANA database, which workers bring along.

    Args:
        in_: scalar or list of ints: time since 1970-01-01 00:00 UTC; of several names each by itself.
        timezone: a text: its IANA name, as Europe/Berlin.
        unit: one of s, ms, us, ns, by default "s": what the timestamps count; a column of timestamps has its own.
        out: name of the result; by default it replaces the input.

    Returns:
        A transform whose result is int32, scalar or list like the input.
    """
    return op("local_hour", in_, out=out, timezone=timezone, unit=unit)


@_builder
def log1p(in_: Names, *, out: str | None = None) -> Transform:
    """ln(1+x): -inf for -1, NaN below it.

    Ints count as float32.

    Args:
        in_: scalar or list of numbers; of several names each by itself.
        out: name of the result; by default it replaces the input.

    Returns:
        A transform whose result is float64 for float64, else float32; scalar or list like the input.
    """
    return op("log1p", in_, out=out)


@_builder
def logit(in_: Names, *, eps: float | None = None, out: str | None = None) -> Transform:
    """ln(x / (1-x)), of x moved into [eps, 1-eps] if eps is given, as torch.logit.

    Ints count as float32.

    Args:
        in_: scalar or list of numbers; of several names each by itself.
        eps: a number, or None: from 0 to 0.5; left out, results are infinite at 0 and 1, and NaN outside.
        out: name of the result; by default it replaces the input.

    Returns:
        A transform whose result is float64 for float64, else float32; scalar or list like the input.
    """
    return op("logit", in_, out=out, eps=eps)


@_builder
def lookup(
    in_: Names,
    table: str | os.PathLike[str],
    columns: str | Sequence[str],
    *,
    key: str | Sequence[str] | None = None,
    default: Scalar | None = None,
    duplicates: str = "error",
    as_of: str | None = None,
    max_age: int | str | None = None,
    unit: str | None = None,
    storage: str | None = None,
    out: str | None = None,
) -> Transform:
    """Takes columns of the row of a side table that has the inputs as its key.

    Keys that the table lacks become default, or null without one. Reading fails at a table with two rows of one key,
    unless `duplicates` or `as_of` says which counts.

    Args:
        in_: one scalar or list of ints or text for each column of the key, of several scalars; with as_of a time
            (int32, int64 or a timestamp) behind them.
        table: a text: URI of the file, which is pinned when the session is opened.
        columns: a list of texts: names of the columns to take.
        key: a list of texts, or None: names of the key's columns; left out: those of the inputs.
        default: a number, text or bool, or None: for keys that the table lacks, in columns of scalars; left out: null.
        duplicates: one of error, first, by default "error": what two rows of one key are: an error, or the first of
            them counts.
        as_of: a text, or None: column that says from when on a row counts.
        max_age: a number, text or bool, or None: rows that are older count as none: an int in the unit of the time, or
            a text such as 90s, 12h or 7d; left out: any age.
        unit: one of d, s, ms, us, ns, or None: what a time counts in, if that is an int or a date, which counts d, and
            the other one is a timestamp.
        storage: a text, or None: storage profile that opens the table; left out: the dataset's.
        out: name of the result, with {} for the column's; by default the column's alone.

    Returns:
        A transform whose result is the column's type; a list of the column's type for a list.
    """
    return op(
        "lookup",
        in_,
        out=out,
        table=table,
        columns=columns,
        key=key,
        default=default,
        duplicates=duplicates,
        as_of=as_of,
        max_age=max_age,
        unit=unit,
        storage=storage,
    )


@_builder
def map_id(
    in_: Names,
    keys: Sequence[int] | Sequence[str] | None = None,
    *,
    first: int | None = None,
    count: int | None = None,
    values: Sequence[float] | None = None,
    default: float | None = None,
    vocabulary: str | None = None,
    min_count: int | None = None,
    max_size: int | None = None,
    buckets: int | None = None,
    out: str | None = None,
) -> Transform:
    """Looks ids or text up in a dictionary of keys, or in a range of count ids from first on.

    Others become default, or null without one.

    Args:
        in_: scalar or list of ints or text; of several names each by itself.
        keys: a list of numbers, texts or bools, or None: ints or texts, no two alike; this, or first and count.
        first: an int, or None: least id of the range.
        count: a positive int, or None: ids in the range.
        values: a list of numbers, or None: ints or floats, one for each key; left out: the key's place, from 0.
        default: a number, or None: for what is no key; left out: null.
        vocabulary: one of fit, or None: the keys are those of the data, the most frequent first: in place of keys,
            values and default.
        min_count: a positive int, or None: of a vocabulary: how often a key is in the data at least.
        max_size: a positive int, or None: of a vocabulary: how many keys it has at most.
        buckets: an int, or None: of a vocabulary: among how many ids values are spread by a hash that it lacks; left
            out: 1.
        out: name of the result; by default it replaces the input.

    Returns:
        A transform whose result is int64, or float32 if a value or the default is a float; scalar or list like the
            input.
    """
    return op(
        "map_id",
        in_,
        out=out,
        keys=keys,
        first=first,
        count=count,
        values=values,
        default=default,
        vocabulary=vocabulary,
        min_count=min_count,
        max_size=max_size,
        buckets=buckets,
    )


@_builder
def ngram(in_: Names, n: int, *, out: str, salt: int = 0, max: int | None = None) -> Transform:  # noqa: A002
    """Joins the features' ids row by row, without nulls, and hashes each n consecutive ones into one id.

    Args:
        in_: one or more scalars or lists of ints.
        n: a positive int: ids that make one.
        salt: an int, by default 0: makes hashes of the same ids differ.
        max: a positive int, or None: results lie in [0, max); left out: any int64.
        out: name of the result.

    Returns:
        A transform whose result is list<int64>, never null.
    """
    return op("ngram", in_, out=out, n=n, salt=salt, max=max)


@_builder
def normalize(
    in_: Names, mean: float | Sequence[float] | Fit, std: float | Sequence[float] | Fit, *, out: str | None = None
) -> Transform:
    """(x - mean) / std, in float32; of a picture's bytes, x/255 takes the place of x.

    Args:
        in_: scalar or list of numbers, or pictures; of several names each by itself.
        mean: a number or a list of numbers: finite; of pictures one for each channel, or for all.
        std: a number or a list of numbers: finite, above 0; of pictures one for each channel, or for all.
        out: name of the result; by default it replaces the input.

    Returns:
        A transform whose result is float32, scalar or list like the input, or pictures of float32.
    """
    return op("normalize", in_, out=out, mean=mean, std=std)


@_builder
def onehot(in_: Names, size: int, *, out: str | None = None) -> Transform:
    """A list of size floats for each row: 1 at each of its ids, 0 elsewhere.

    Nulls and ids outside [0, size) leave zeros. Reading fails at a window of more than 2^26 values.

    Args:
        in_: scalar or list of ints; of several names each by itself.
        size: a positive int: length of each list, at most 65536.
        out: name of the result; by default it replaces the input.

    Returns:
        A transform whose result is list<float32>, never null, of length size.
    """
    return op("onehot", in_, out=out, size=size)


@_builder
def positive_modulus(in_: Names, modulus: int, *, out: str | None = None) -> Transform:
    """The remainder of the division by modulus, in [0, modulus) for negative ids, too.

    Args:
        in_: scalar or list of ints; of several names each by itself.
        modulus: a positive int: count of results, as of an embedding table's rows.
        out: name of the result; by default it replaces the input.

    Returns:
        A transform whose result is int64, scalar or list like the input.
    """
    return op("positive_modulus", in_, out=out, modulus=modulus)


@_builder
def random_resized_crop(
    in_: Names,
    size: int | Sequence[int],
    *,
    scale: Sequence[float] = (0.08, 1.0),
    ratio: Sequence[float] = (0.75, 1.3333333333333333),
    seed: int = 0,
    out: str | None = None,
) -> Transform:
    """Resizes a part of each picture that is chosen at random, anew in each epoch.

    It is torchvision's RandomResizedCrop.

    Args:
        in_: pictures; of several names each by itself.
        size: a list of numbers: [height, width], or one number for both.
        scale: a list of numbers, by default (0.08, 1.0): from and to: the part's share of the area, above 0.
        ratio: a list of numbers, by default (0.75, 1.3333333333333333): from and to: the part's width by its height.
        seed: an int, by default 0: beside the spec's seed.
        out: name of the result; by default it replaces the input.

    Returns:
        A transform whose result is pictures.
    """
    return op("random_resized_crop", in_, out=out, size=size, scale=scale, ratio=ratio, seed=seed)


@_builder
def resize(in_: Names, size: int | Sequence[int], *, out: str | None = None) -> Transform:
    """Resizes pictures: bilinear, with antialiasing, to the pixels that Pillow makes.

    Args:
        in_: pictures; of several names each by itself.
        size: a list of numbers: [height, width], or one number: the shorter side, the ratio is kept.
        out: name of the result; by default it replaces the input.

    Returns:
        A transform whose result is pictures.
    """
    return op("resize", in_, out=out, size=size)


@_builder
def sample(rate: float, *, where: str | None = None, seed: int = 0) -> Transform:
    """Keeps each row with probability rate, anew in each epoch.

    To split a dataset, filter by hash(KEY, seed) % 100: samples of one seed overlap.

    Args:
        rate: a number from 0 to 1: 1 keeps all rows, 0 none.
        where: a text, or None: a condition over the dataset's columns, such as label == 0: other rows are kept.
        seed: an int, by default 0: beside the spec's seed.

    Returns:
        A transform whose result is none: it selects rows.
    """
    return op("sample", (), rate=rate, where=where, seed=seed)


@_builder
def scale_to_0_1(
    in_: Names,
    *,
    min: float | Fit | None = None,  # noqa: A002
    max: float | Fit | None = None,  # noqa: A002
    of: str | None = None,
    out: str | None = None,
) -> Transform:
    """(x - min) / (max - min): [min, max] becomes [0, 1], and what lies outside stays outside.

    Args:
        in_: scalar or list of numbers; of several names each by itself.
        min: a number: what becomes 0; finite.
        max: a number: what becomes 1; finite, above min.
        of: one of fit, or None: in place of min and max, which are then those of the data.
        out: name of the result; by default it replaces the input.

    Returns:
        A transform whose result is float64 for float64, else float32; scalar or list like the input.
    """
    return op("scale_to_0_1", in_, out=out, min=min, max=max, of=of)


@_builder
def scale_to_z_score(
    in_: Names,
    mean: float | Fit | None = None,
    std: float | Fit | None = None,
    *,
    of: str | None = None,
    out: str | None = None,
) -> Transform:
    """(x - mean) / std; like normalize, but float64 stays float64, and ints are rounded to float32 last.

    Args:
        in_: scalar or list of numbers; of several names each by itself.
        mean: a number: what becomes 0; finite.
        std: a number: finite, above 0.
        of: one of fit, or None: in place of mean and std, which are then those of the data.
        out: name of the result; by default it replaces the input.

    Returns:
        A transform whose result is float64 for float64, else float32; scalar or list like the input.
    """
    return op("scale_to_z_score", in_, out=out, mean=mean, std=std, of=of)


@_builder
def score_max(in_: Names, *, out: str) -> Transform:
    """The greatest score of the second list's ids that are in the first, too, 0 if there is none.

    As TorchArrow's functional.get_score_max; NaN if one is. Reading fails at a row that has more or fewer scores than
    ids.

    Args:
        in_: ids, other ids, the scores of those: scalars or lists of ints, the scores of numbers.
        out: name of the result.

    Returns:
        A transform whose result is float32; null if an input, or an element of one, is null.
    """
    return op("score_max", in_, out=out)


@_builder
def score_min(in_: Names, *, out: str) -> Transform:
    """The least score of the second list's ids that are in the first, too, 0 if there is none.

    As TorchArrow's functional.get_score_min; NaN if one is. Reading fails at a row that has more or fewer scores than
    ids.

    Args:
        in_: ids, other ids, the scores of those: scalars or lists of ints, the scores of numbers.
        out: name of the result.

    Returns:
        A transform whose result is float32; null if an input, or an element of one, is null.
    """
    return op("score_min", in_, out=out)


@_builder
def score_sum(in_: Names, *, out: str) -> Transform:
    """The sum of the scores of the second list's ids that are in the first, too.

    As TorchArrow's functional.get_score_sum. Reading fails at a row that has more or fewer scores than ids.

    Args:
        in_: ids, other ids, the scores of those: scalars or lists of ints, the scores of numbers.
        out: name of the result.

    Returns:
        A transform whose result is float32; null if an input, or an element of one, is null.
    """
    return op("score_sum", in_, out=out)


@_builder
def sigrid_hash(in_: Names, *, max: int, salt: int = 0, out: str | None = None) -> Transform:  # noqa: A002
    """Hashes ids into [0, max), as TorchArrow's functional.sigrid_hash; text by its XXH64.

    Args:
        in_: scalar or list of ints or text; of several names each by itself.
        salt: an int, by default 0: makes hashes of the same id differ.
        max: a positive int: count of results, as of an embedding table's rows.
        out: name of the result; by default it replaces the input.

    Returns:
        A transform whose result is int64, scalar or list like the input.
    """
    return op("sigrid_hash", in_, out=out, salt=salt, max=max)


@_builder
def sort_by_score(in_: Names, *, out: str, ascending: bool = False) -> Transform:
    """Sorts each list by its scores, the greatest first.

    Equal ones keep their order, those without a score (null, NaN) come last. A list alone is sorted by itself.

    Args:
        in_: a list of numbers, and its scores: a list of numbers of the same lengths.
        ascending: True or False, by default False: the least score first.
        out: name of the result.

    Returns:
        A transform whose result is the first input's type; null if an input is null.
    """
    return op("sort_by_score", in_, out=out, ascending=ascending)


@_builder
def union(in_: Names, *, out: str) -> Transform:
    """The elements of the first list and then those of the second, each once.

    Args:
        in_: two scalars or lists of ints.
        out: name of the result.

    Returns:
        A transform whose result is list<int64>; null if an input is null; a null element counts as a value.
    """
    return op("union", in_, out=out)


# end: written by `make generate`


@overload
def op(  # type: ignore[overload-overlap]  # of texts, types cannot tell which has a colon
    call: str, /, *, kind: Literal["filter"], by: str | None = ..., kwargs: Mapping[str, Any] | None = ...,
    memory: int | None = ..., threads: int | None = ..., timeout: float | None = ..., name: str | None = ...,
) -> Op: ...  # fmt: skip


@overload
def op(
    name: str, in_: Names = (), /, *, out: str | None = None, **params: Value | os.PathLike[str] | None
) -> Transform: ...


@overload
def op(
    call: str, /, *, out: Any, kind: str = ..., by: str | None = ..., kwargs: Mapping[str, Any] | None = ...,
    memory: int | None = ..., threads: int | None = ..., timeout: float | None = ..., name: str | None = ...,
    most: int | None = ...,
) -> Op: ...  # fmt: skip


@overload
def op(
    function: Callable[..., Any], /, *, out: Any = ..., by: str = ..., args: Sequence[Any] = ...,
    kwargs: Mapping[str, Any] | None = ..., deterministic: bool = ..., memory: int | None = ..., threads: int = ...,
    timeout: float | None = ..., name: str | None = ..., kind: str = ..., most: int | None = ..., rng: bool = ...,
) -> Op: ...  # fmt: skip


@overload
def op(
    *, out: Any = ..., by: str = ..., args: Sequence[Any] = ..., kwargs: Mapping[str, Any] | None = ...,
    deterministic: bool = ..., memory: int | None = ..., threads: int = ..., timeout: float | None = ...,
    name: str | None = ..., kind: str = ..., most: int | None = ..., rng: bool = ...,
) -> Callable[[Callable[..., Any]], Op]: ...  # fmt: skip


def op(of: Any = None, in_: Names = (), /, *, out: Any = None, **params: Any) -> Any:
    """A transform by any op, by its name; or an op of a Python function.

        penstock.op("hash_pair", ["a", "b"], out="c", salt=7)      # an op that the fleet adds

        @penstock.op(out={"tokens": penstock.int32.list()})
        def tokenize(text: pa.Array) -> pa.Array: ...

        clean = penstock.op("mypkg.features:clean", out=penstock.string)    # a function that the workers have

        loader = penstock.DataLoader(uri, transforms=[tokenize("text")], ...)

    With a name first, it is a transform: parameters that are None are left out, and without out the result replaces the
    input; "{}" in it stands for the input's name. With a function or a class first, or as a decorator of one, it is an
    op of it (how-to: "Your own Python"). A class is made once in each process, and called as a function is. What
    follows is of these. With "module:function" first, it is an op of a function that the workers have under this name,
    where penstock.op marks it; it needs out=, or kind="filter", as the mark says them.

    Args:
        of: the name of an op, or a function, or a class whose objects are called as functions are, or the name of one,
            "module:function".
        in_: of a name: the inputs.
        out: the types of the results by their names, such as {"tokens": penstock.int32.list()}, or a type for one
            result, which replaces the input or is named where the op is used. Arrow's and NumPy's types are taken, too.
        **params: of a name: the op's parameters. Of a function: by="arrow" has it called with an Arrow array for each
            input, "numpy" with NumPy arrays, and "rows" once for each row with Python's values. kind="map" makes one
            row of each; "filter" returns a bool for each row, True if it stays, and has no out=; "flat_map" makes none,
            one or many rows of each, at most most=1024 on average over a call. args= and kwargs= are what a class is
            made with; a function gets kwargs= with each call. With rng=True it gets what it draws random numbers from,
            too: by rows a NumPy generator as rng=, else a uint64 for each row in a NumPy array as seeds=; they repeat
            for a row and an epoch, wherever it runs. deterministic=True says that equal inputs make equal
            results. memory= is the bytes that a process of it may take, threads= how many it may use (one by default),
            timeout= the seconds that one call may take, and name= what it is called in messages. Of a function that the
            workers have: by=, most=, memory=, threads= and timeout= are those of its mark unless they are given here,
            and kwargs= go to the function, or to the class; numbers, texts, bools and lists of these.

    Raises:
        SpecError: an argument is wrong. The message says what to give.
    """
    if isinstance(of, str) and ":" in of:
        return _by_name(of, in_, out, params)
    if isinstance(of, str):
        return _named(of, in_, out, params)
    if in_ != ():
        raise SpecError("op: a function gets its inputs where the op is used, as penstock.op(f, out=...)('a', 'b')")
    unknown = [name for name in params if name not in _OPTIONS]
    if unknown:
        raise SpecError(f"op: a function has no {unknown[0]}=; the arguments are out, {', '.join(_OPTIONS)}")
    if of is not None:
        return python(of, out=out, **params)
    if out is None and "kind" not in params:
        raise SpecError("op: give the name of an op, or a function with out=, which says what it makes")
    return lambda function: python(function, out=out, **params)


_OPTIONS = [name for name in inspect.signature(python).parameters if name not in ("function", "out")]
_OPTIONS_BY_NAME = [name for name in inspect.signature(named).parameters if name not in ("call", "out")]


def _by_name(call: str, in_: Names, out: Any, params: Mapping[str, Any]) -> Op:
    if in_ != ():
        raise SpecError(f'{call}: a function gets its inputs behind it, as penstock.op("{call}", out=...)("a", "b")')
    unknown = [name for name in params if name not in _OPTIONS_BY_NAME]
    if unknown:
        where = "its mark says that" if unknown[0] in _OPTIONS else "its own arguments stand in kwargs="
        raise SpecError(f"{call}: {unknown[0]}=; {where}; here are out, {', '.join(_OPTIONS_BY_NAME)}")
    return named(call, out=out, **params)


def _named(name: str, in_: Names, out: Any, params: Mapping[str, Any]) -> Transform:
    names = names_of(in_)
    if not all(isinstance(each, str) for each in names):
        raise SpecError(
            f'{name}: in_: found {in_!r:.80}; give a name, a glob or a list of these, as {name}(["a", "b_*"])'
        )
    if out is not None and not isinstance(out, str):
        raise SpecError(
            f"{name}: out={out!r:.80}; give the name of the result, as text. A function that the workers have is named "
            f'with its module, as "mypkg.features:{name}"'
        )
    given = {
        key: value_of(os.fspath(value) if isinstance(value, os.PathLike) else value, f"{name}: {key}")
        for key, value in params.items()
        if value is not None
    }
    return Transform(name, tuple(names), out or "", given)
