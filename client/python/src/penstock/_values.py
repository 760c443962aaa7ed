"""Names and values as people give them to builders of a spec, and as messages of api/pb/spec.proto have them.

Everything is pure. What no message can hold is a SpecError.
"""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, TypeAlias

from penstock.errors import SpecError

STATISTICS = ("mean", "std", "min", "max", "median", "quantile", "quantiles", "most_frequent")


@dataclass(frozen=True)
class Fit:
    """A statistic of what a transform is applied to, in place of a parameter's value; `penstock fit` computes it.

        penstock.fill_null("int_*", penstock.Fit("median"))
        penstock.bucketize("price", penstock.Fit("quantiles", 100))

    Attributes:
        statistic: "mean", "std" (of the population), "min", "max", "median", "most_frequent", "quantile" or
            "quantiles". Nulls and NaN are left out; elements of lists count one by one.
        arg: of "quantile" a share from 0 to 1; of "quantiles" the number of parts, of which the borders are.
    """

    statistic: str
    arg: float | None = None

    def __post_init__(self) -> None:
        if self.statistic not in STATISTICS:
            near = difflib.get_close_matches(str(self.statistic), STATISTICS, n=1)
            hint = f"nearest: {near[0]}; " if near else ""
            raise SpecError(f"no statistic {self.statistic!r:.40}; {hint}there are {', '.join(STATISTICS)}")


Names: TypeAlias = str | Sequence[str]
Scalar: TypeAlias = bool | int | float | str
Value: TypeAlias = Scalar | Sequence[Scalar] | Fit
Message: TypeAlias = dict[str, Any]


def without_none(message: Message) -> Message:
    """A message less the fields that are not there."""
    return {name: value for name, value in message.items() if value is not None}


def check_integer(name: str, value: object, least: int | None = None, most: int | None = None) -> None:
    """Refuses what is no integer, or below the least one or above the greatest, in words about the argument."""
    if not isinstance(value, numbers.Integral):
        raise SpecError(f"{name}: found {value!r}; give an integer")
    if least is not None and value < least:
        raise SpecError(f"{name}: found {value!r}; give {least} or more")
    if most is not None and int(value) > most:
        raise SpecError(f"{name}: found {value!r}; give {most} or less")


def check_text(name: str, value: object) -> None:
    """Refuses what is no text, in words about the argument."""
    if not isinstance(value, str):
        raise SpecError(f"{name}: found {value!r:.80}; give text")


def names_of(given: Names) -> list[str]:
    """The names in their order, of which sets have none; what is no list of names stays, for whoever looks at each."""
    if isinstance(given, str) or not isinstance(given, Iterable) or isinstance(given, (bytes, Mapping, Set)):
        return [given]  # type: ignore[list-item]
    return list(given)


def value_of(value: Value, where: str) -> Message:
    """A message of a Python or NumPy value, or of what the data say."""
    if isinstance(value, Fit):
        check_text(f"{where}: Fit", value.statistic)
        arg = None if value.arg is None else value_of(value.arg, f"{where}: Fit")
        return {"fit": without_none({"statistic": value.statistic, "arg": arg})}
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
    elements = [value_of(v, where) for v in values]
    kinds = {kind for e in elements for kind in e}
    if kinds == {"int"}:
        return {"ints": {"values": [e["int"] for e in elements]}}
    if kinds and kinds <= {"float", "int"} and all(abs(e.get("int", 0)) <= 1 << 53 for e in elements):
        return {"floats": {"values": [e["float"] if "float" in e else float(e["int"]) for e in elements]}}
    return {"list": {"values": elements}}


def from_message(message: Message) -> Any:
    """The value of a message, as protobuf's JSON has it: ints are texts there."""
    kinds: dict[str, Callable[[Any], Any]] = {
        "int": int,
        "float": float,
        "ints": int,
        "floats": float,
        "list": from_message,
    }
    kind, value = next(iter(message.items()), ("", None))
    if kind == "fit" and isinstance(value, Mapping):
        return Fit(value["statistic"], from_message(value["arg"]) if "arg" in value else None)
    if isinstance(value, Mapping):
        return [kinds[kind](each) for each in value.get("values", ())]
    return kinds[kind](value) if kind in kinds else value
