"""One Python function of a session's code, called with Arrow arrays: styles, and results of exactly the declared types.

It runs in the processes that workers keep for functions, in penstock.check, and where a loader tries its functions. It
needs pyarrow and numpy alone.
"""

from __future__ import annotations

import inspect
import os
import pickle
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock import _op_draws, _op_values
from penstock._op_pictures import Pictures
from penstock._op_values import Array, Declared, described


class Entry(TypedDict, total=False):
    """What a session's code has of one function."""

    call: Any  # a function, a class, or another object that can be called
    args: tuple[Any, ...]  # of the class's constructor
    kwargs: dict[str, Any]  # of the constructor, or of each call of a function
    results: list[str]  # their names, where the op gives them


class Mistake(Exception):
    """A function returned what is not as it was declared, or its style cannot hold what it is to get."""


class TooMany(Mistake):
    """A function made more rows than it may, of all rows of a call together."""


Column: TypeAlias = "pa.Array | Pictures"

MOST = 1024  # rows that a flat_map makes of one, on average over a call, where it does not say
_PARENTS = "parents"  # of which rows results are, as flat_maps by arrays name it


def of_a_row(err: BaseException) -> bool:
    """Whether the values of one row make it so, as far as can be told: not the machine, nor all rows together."""
    if not isinstance(err, Exception) or isinstance(err, (MemoryError, TooMany, *_OF_SYSTEM)):
        return False
    if isinstance(err, OSError) and err.errno is not None:  # what PIL raises of a damaged file has none
        return False
    kind = type(err)
    return kind.__name__ != "OutOfMemoryError" and kind.__module__.partition(".")[0] not in _OF_SERVICES


_OF_SYSTEM = tuple(kind for kind in OSError.__subclasses__() if kind.__module__ == "builtins")  # FileNotFoundError, ...
_OF_SERVICES = ("aiohttp", "botocore", "google", "grpc", "httpx", "requests", "urllib", "urllib3")  # packages


class Sparing(NamedTuple):
    """What a call does about rows that fail."""

    may: Callable[[int, BaseException], bool]  # be left out, which it is then, for it failed so
    on: Callable[[], None]  # is called before a function is called again, with some of the rows


class Made(NamedTuple):
    """What a call makes of the rows that did not fail."""

    results: list[pa.Array]  # exactly of the declared types; a filter makes none
    parents: Array | None = None  # of maps; else int32, never falling: of which input row each output row is


def load(bundle: bytes) -> list[Entry]:
    """The functions of a session's code, in its order."""
    entries: list[Entry] = pickle.loads(bundle)
    return entries


class Function:
    """A function, ready to be called. A class is made here.

    Args:
        entry: of the session's code.
        style: how it gets its inputs: "arrow", "numpy" or "rows".
        outs: what it makes.
        name: for messages.
        kind: which rows it makes: "map", "filter" or "flat_map".
        most: rows that a flat_map makes at most, for each row of a call.
        rng: it gets what it draws random numbers from: by rows a generator as rng, else an array as seeds.
    """

    def __init__(
        self, entry: Entry, style: str, outs: Sequence[Declared], name: str, kind: str = "map", most: int = MOST,
        rng: bool = False,
    ) -> None:  # fmt: skip
        self.name = name
        self.row: int | None = None  # at which the last call failed, if that is known
        self._outs, self._most = tuple(outs), most
        self._call, self._kwargs = entry["call"], dict(entry.get("kwargs") or {})
        if inspect.isclass(self._call):
            self._call, self._kwargs = self._call(*entry.get("args", ()), **self._kwargs), {}
        named = entry.get("results") or []
        self._results = named if len(named) == len(self._outs) else []
        self._style = style
        self.draws = _op_draws.KEYWORDS[style] if rng else None
        self._generators = _op_draws.Generators()
        self._seeds: Array = np.zeros(0, np.uint64)  # of the rows of the call
        self._sparing: Sparing | None = None
        self._bound = 0  # rows that may be made in the call
        self._make = {"map": self._map, "filter": self._filter, "flat_map": self._flat_map}[kind]

    def call(
        self, columns: list[Column], rows: int, seeds: Array | None = None, sparing: Sparing | None = None
    ) -> Made:
        """What becomes of columns of so many rows.

        seeds: one for each row, if the function draws. sparing: rows that fail may be left out.
        """
        self.row, self._sparing, self._bound = None, sparing, self._most * rows
        if self.draws:
            self._seeds = _op_draws.some(rows) if seeds is None else seeds
        try:
            if self._style == "rows" or sparing is None:
                return self._make(columns, rows)
            return self._in_parts(columns, rows, sparing)
        finally:
            self._seeds = np.zeros(0, np.uint64)  # they lie where the inputs do, which is somebody else's

    def _in_parts(self, columns: list[Column], rows: int, sparing: Sparing) -> Made:
        """Calls a function by arrays, and with halves of the rows where that fails, down to the rows that make it.

        A mistake that is about no row is about the whole result: of fewer rows it might be none, and its values wrong.
        """
        todo, made, seeds = [(0, rows)], [], self._seeds
        while todo:
            start, count = todo.pop()
            some = slice(start, start + count)
            self.row, self._seeds = None, seeds[some]
            if count < rows:
                sparing.on()
            try:
                part = self._make([column[some] for column in columns], count)
                made.append(part if part.parents is None else part._replace(parents=part.parents + np.int32(start)))
            except Exception as err:
                self.row = None if self.row is None else start + self.row
                whole = isinstance(err, Mistake) and self.row is None and count > 1
                if whole or not of_a_row(err):
                    raise
                if count > 1:
                    todo += [(start + count // 2, count - count // 2), (start, count // 2)]
                else:
                    self.row = start
                    self._leave_out(start, err)
        self.row = None
        return self._joined(made)

    def _joined(self, parts: list[Made]) -> Made:
        """What the parts of a call made."""
        if len(parts) == 1:
            return parts[0]
        results = [
            pa.concat_arrays([pa.array([], declared.arrow()), *(part.results[place] for part in parts)])
            for place, declared in enumerate(self._outs)
        ]
        if self._make == self._map:
            return Made(results)
        return Made(results, np.concatenate([np.zeros(0, np.int32), *(part.parents for part in parts)]))

    def _leave_out(self, row: int, err: Exception) -> None:
        """Leaves a row out that failed, or fails."""
        if self._sparing is None or not self._sparing.may(row, err):
            raise err

    def _map(self, columns: list[Column], rows: int) -> Made:
        if self._style != "rows":
            results = self._split(self._whole(columns))
            return Made([self._made(place, result, rows) for place, result in enumerate(results)])
        called: list[int] = []
        lists: list[list[Any]] = [[] for _ in self._outs]

        def take(row: int, returned: Any) -> None:
            for made, value in zip(lists, self._split(returned), strict=True):
                made.append(value)
            called.append(row)

        self._each(columns, take)
        return Made(self._of_rows(lists, called, None)[0])

    def _filter(self, columns: list[Column], rows: int) -> Made:
        if self._style == "rows":
            stay: list[int] = []

            def take(row: int, returned: Any) -> None:
                if self._truth(returned):
                    stay.append(row)

            self._each(columns, take)
            return Made([], np.array(stay, np.int32))
        returned = self._whole(columns)
        mask = _op_values.perhaps(returned, "bool")
        if mask is None or not (pa.types.is_boolean(mask.type) or mask.null_count == len(mask)):
            raise Mistake(
                f"{self.name} returned {described(returned)}; return an array of bools with one for each row, which "
                "says whether it stays"
            )
        if len(mask) != rows:
            raise Mistake(
                f"{self.name} returned {len(mask)} bools for {rows} rows; return one for each, in their order"
            )
        if not pa.types.is_boolean(mask.type):  # it is all null
            return Made([], np.zeros(0, np.int32))
        stays = pc.fill_null(mask, False).to_numpy(zero_copy_only=False)
        return Made([], np.flatnonzero(stays).astype(np.int32))

    def _truth(self, value: Any) -> bool:
        """Whether a row stays, by what was returned for it; None is not true."""
        if isinstance(value, pa.BooleanScalar):
            value = value.as_py()
        if value is None or isinstance(value, (bool, np.bool_)):
            return bool(value)
        raise Mistake(
            f"{self.name} returned {described(value)}; return True for a row that stays, and False for others"
        )

    def _flat_map(self, columns: list[Column], rows: int) -> Made:
        if self._style == "rows":
            return self._outputs(columns, rows)
        first, *results = self._split(self._whole(columns), _PARENTS)
        parents = self._parents(first, rows)
        return Made([self._made(i, result, len(parents), parents) for i, result in enumerate(results)], parents)

    def _outputs(self, columns: list[Column], rows: int) -> Made:
        """What becomes of rows, one after the other."""
        parents: list[int] = []
        lists: list[list[Any]] = [[] for _ in self._outs]

        def take(row: int, returned: Any) -> None:
            if isinstance(returned, (str, bytes, Mapping)) or not hasattr(returned, "__iter__"):
                raise Mistake(
                    f"{self.name} returned {described(returned)}; return a list of what the row becomes, [] for "
                    "nothing, or yield each"
                )
            outputs: list[Sequence[Any]] = []
            for output in returned:
                if len(parents) + len(outputs) == self._bound:
                    raise self._too_many(np.array([*parents, *[row] * (len(outputs) + 1)]), rows)
                outputs.append(self._split(output))
            for values in outputs:
                for made, value in zip(lists, values, strict=True):
                    made.append(value)
            parents.extend([row] * len(outputs))

        self._each(columns, take)
        results, kept = self._of_rows(lists, parents, np.array(parents, np.int32))
        return Made(results, np.array(kept, np.int32))

    def _of_rows(
        self, lists: list[list[Any]], of: list[int], parents: Array | None
    ) -> tuple[list[pa.Array], list[int]]:
        """Results by rows as arrays, and of which rows they are: those that convert, where others may be left out."""
        try:
            return [self._made(place, values, len(of), parents) for place, values in enumerate(lists)], of
        except Mistake:
            if self._sparing is None:
                raise
        bad: set[int] = set()
        for i, row in enumerate(of):
            if row in bad:
                continue
            try:
                for place, values in enumerate(lists):
                    self._made(place, values[i : i + 1], 1)
            except Mistake as err:
                self.row = row
                self._leave_out(row, err)
                bad.add(row)
        kept = [i for i, row in enumerate(of) if row not in bad]
        lists, of = [[values[i] for i in kept] for values in lists], [of[i] for i in kept]
        return [self._made(place, values, len(of), np.array(of, np.int32)) for place, values in enumerate(lists)], of

    def _parents(self, result: Any, rows: int) -> Array:
        """Of which rows results are, as a function by arrays says it."""
        found = _op_values.perhaps(result, "int64")
        if found is not None and len(found) == 0:  # of any type, as np.array([]) is of floats
            return np.zeros(0, np.int32)
        if found is None or found.null_count or not pa.types.is_integer(found.type):
            raise Mistake(
                f"{_PARENTS}: found {described(result)}; return first of all an array of ints without nulls: of which "
                "input row each output row is"
            )
        parents: Array = found.to_numpy(zero_copy_only=False)
        outside = (parents < 0) | (parents >= rows)
        if outside.any():
            at = int(outside.argmax())
            raise Mistake(f"{_PARENTS}: output row {at} is of row {parents[at]}; the call has rows 0 to {rows - 1}")
        parents = parents.astype(np.int32)
        falls = parents[1:] < parents[:-1]
        if falls.any():
            at = int(falls.argmax()) + 1
            raise Mistake(
                f"{_PARENTS}: output row {at} is of row {parents[at]}, behind one of row {parents[at - 1]}; return "
                "them in the order of the input rows"
            )
        if len(parents) > self._bound:
            raise self._too_many(parents, rows)
        return parents

    def _too_many(self, parents: Array, rows: int) -> TooMany:
        """About the row of which the most became, where a call makes too many."""
        became = np.bincount(parents, minlength=rows)
        self.row = int(became.argmax())
        return TooMany(
            f"it became {became[self.row]} rows or more, and all {rows} of the call {len(parents)} or more; at most "
            f"{self._most} for each may become of them: make fewer, or allow more by most="
        )

    def _whole(self, columns: list[Column]) -> Any:
        """What it returns for whole columns."""
        keywords = {**self._kwargs, self.draws: self._seeds} if self.draws else self._kwargs
        if self._style == "arrow":
            return self._call(*columns, **keywords)
        arrays = []
        for place, column in enumerate(columns):
            if isinstance(column, Pictures):
                self._check_pictures(column, place)
                arrays.append(column.whole())
                continue
            self._check_holes(column, place)
            arrays.append(column.to_numpy(zero_copy_only=False))
        return self._call(*arrays, **keywords)

    def _each(self, columns: list[Column], take: Callable[[int, Any], None]) -> None:
        """Has take have what it returns for each row, which is self.row meanwhile."""
        seeds, keywords = self._seeds.tolist(), dict(self._kwargs)
        for row, values in enumerate(zip(*map(_values, columns), strict=True)):
            self.row = row
            if self.draws:
                keywords[self.draws] = self._generators.begin(seeds[row])
            try:
                take(row, self._call(*values, **keywords))
            except Exception as err:
                self._leave_out(row, err)
        self.row = None

    def _split(self, result: Any, *first: str) -> Sequence[Any]:
        """What a call returned, as one object for each result, behind those that come first."""
        if isinstance(result, (pa.RecordBatch, pa.Table)):
            result = dict(zip(result.column_names, result.columns, strict=True))
        elif type(result).__name__ == "DataFrame":  # of pandas or polars, which are not imported here
            result = {name: result[name] for name in result.columns}
        many, names = len(first) + len(self._outs), [*first, *self._results] if self._results else []
        wanted = ", ".join(names)
        if isinstance(result, Mapping) and names:
            if set(result) != set(names):
                found = ", ".join(map(str, result)) or "nothing"
                raise Mistake(f"{self.name} returned {found}; return {wanted}" + (", which out= names" * (not first)))
            return [result[name] for name in names]
        if many == 1:
            return [result]
        if not isinstance(result, (tuple, list)) or len(result) != many:
            raise Mistake(
                f"{self.name} returned {described(result)}; return a tuple of {many}"
                + (f" ({wanted}, in this order), or a dict of these names" if wanted else "")
                + (f", of which the first are the {first[0]}" if first and not wanted else "")
            )
        return result

    def _check_holes(self, column: pa.Array, place: int) -> None:
        """Refuses nulls that NumPy's arrays cannot have: it has NaN for floats, and None for text, bytes and lists."""
        leaf = column
        while pa.types.is_list(leaf.type):
            leaf = leaf.flatten()
        if leaf.null_count == 0 or not (pa.types.is_integer(leaf.type) or pa.types.is_boolean(leaf.type)):
            return
        self.row = _first_hole(column)
        raise Mistake(
            f"{self._input(place)} of {self.name} has a null in row {self.row} of the call, and NumPy has none for "
            f'{leaf.type}; put penstock.fill_null(...) before it, or take Arrow arrays, with by="arrow"'
        )

    def _check_pictures(self, column: Pictures, place: int) -> None:
        """Refuses nulls among pictures of one size, which are one array."""
        self.row = column.first_null()
        if self.row is not None and column.kind.shape:
            raise Mistake(
                f"{self._input(place)} of {self.name} has a null in row {self.row} of the call, and an array of "
                'pictures of one size has none; leave such rows out by a filter, or take each row by itself, by="rows"'
            )
        self.row = None

    def _input(self, place: int) -> str:
        try:
            names = list(inspect.signature(self._call).parameters)
        except (TypeError, ValueError):
            names = []
        return f"the input {names[place]}" if place < len(names) else f"input {place + 1}"

    def _made(self, place: int, result: Any, rows: int, parents: Array | None = None) -> pa.Array:
        """A result as the Arrow array that was declared."""
        declared = self._outs[place]
        what = self._results[place] if self._results else "the result" if len(self._outs) == 1 else f"result {place}"
        try:
            found = _op_values.arrow_of(result, declared)
        except (TypeError, ValueError, OverflowError, pa.ArrowException) as err:
            raise Mistake(
                f"{what}: found {described(result)}, which is no array of {declared}: {err}; return an Arrow or NumPy "
                "array, or a list, with a value for each row"
            ) from None
        due, output = ("row", "") if parents is None else ("parent", "output ")
        if len(found) != rows:
            raise Mistake(f"{what}: found {len(found)} values for {rows} {due}s; return one for each {due}, in order")
        try:
            return _op_values.cast(found, declared)
        except (ValueError, pa.ArrowException) as err:
            bad = _op_values.first_bad(found, declared)
            where = "" if bad is None else f" in {output}row {bad} of the call"
            self.row = bad if bad is None or parents is None else int(parents[bad])
            raise Mistake(
                f"{what}: found {found.type}{where}, wanted {declared}: {err}; return that, or declare in out= what it "
                "makes"
            ) from None


def _first_hole(column: pa.Array) -> int:
    """The first row that has a null at the bottom of its lists, or is one."""
    rows = np.arange(len(column))
    while pa.types.is_list(column.type):
        rows, column = rows[pc.list_parent_indices(column).to_numpy()], column.flatten()
    return int(rows[column.is_null().index(True).as_py()])


def _values(column: Column) -> Iterable[Any]:
    """The rows of a column as Python values."""
    return column if isinstance(column, Pictures) else _op_values.values(column)


_OWN = str(Path(__file__).parent) + os.sep


def user_traceback(err: BaseException) -> str:
    """The traceback of what a function raised, less the frames of this package."""
    told = traceback.TracebackException.from_exception(err)
    seen: set[int] = set()
    each: traceback.TracebackException | None = told
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        frames = [frame for frame in each.stack if not frame.filename.startswith(_OWN)]
        each.stack = traceback.StackSummary.from_list(frames)
        each = each.__cause__ or each.__context__
    return "".join(told.format()).rstrip()


__all__ = ["MOST", "Entry", "Function", "Made", "Mistake", "Sparing", "load", "of_a_row", "user_traceback"]
