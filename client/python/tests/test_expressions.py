"""Derived columns and filters, beside what DuckDB makes of the same expressions.

Where the rule of docs/reference/expressions.md is not DuckDB's, the SQL says what ours is: comparisons of NaN and of
integers with floats, remainders, casts to integers, and null in place of DuckDB's errors.
"""

from __future__ import annotations

import dataclasses
import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.fleet, pytest.mark.usefixtures("fleet_of_this_machine")]

ROWS = 300
COLUMNS = {"b": "bool", "i": "int", "l": "int", "f": "f32", "d": "f64", "t": "text"}
SQL = {"bool": "boolean", "int": "bigint", "f32": "float", "f64": "double", "text": "varchar"}
MACROS = """
set error_on_division_by_zero = false;  -- of literals, wherever they stand
create macro order_(a, b) as
    case when a is null or b is null then null when isnan(a) or isnan(b) then 2
    when a < b then -1 else (a > b)::int end;
create macro mixed_(i, d) as
    case when i is null or d is null then null when isnan(d) then 2 when d >= 9223372036854775808 then -1
    when d < -9223372036854775808 then 1 when i < trunc(d)::bigint then -1 when i > trunc(d)::bigint then 1
    when trunc(d) < d then -1 else (trunc(d) > d)::int end;
create macro mod_(a, b) as
    case when b = 0 then null when b = -1 then a - a
    else a % b + case when a % b <> 0 and (a % b < 0) <> (b < 0) then b else 0 end end;
create macro whole_(d) as
    case when isnan(d) then null when d >= 9223372036854775808 then 9223372036854775807
    when d <= -9223372036854775808 then -9223372036854775808 else trunc(d)::bigint end;
create macro narrow_(d) as
    case when isnan(d) then 'nan'::float when d >= 3.4028235677973366e38 then 'inf'::float
    when d <= -3.4028235677973366e38 then '-inf'::float else d::float end;
create macro parsed_(s) as case when regexp_full_match(s, '[+-]?[0-9]+') then try_cast(s as bigint) end;
create macro least_(a, b) as
    case when a is null then b when b is null then a when isnan(a) or isnan(b) then 'nan' else least(a, b) end;
create macro greatest_(a, b) as
    case when a is null then b when b is null then a when isnan(a) or isnan(b) then 'nan' else greatest(a, b) end;
"""
TESTS = {"==": "= 0", "!=": "<> 0", "<": "= -1", "<=": "in (-1, 0)", ">": "= 1", ">=": "in (0, 1)"}
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class Pair:
    """An expression in both languages."""

    ours: str
    sql: str
    kind: str
    rough: bool = False  # the last bits depend on the library


def varying(pair: Pair) -> Pair:
    """What is computed with the rows: arithmetic of literals that has no value is a mistake."""
    literal = pair.ours.lstrip("-").isdigit()
    return dataclasses.replace(pair, ours=f"cast({pair.ours} as int64)") if literal else pair


class Writer:
    """Draws expressions."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def column(self, kind: str) -> Pair:
        if self.random.random() < 0.25:
            literals = {
                "bool": ["true", "false"],
                "int": ["0", "1", "-3", "7", "9223372036854775807"],
                "f32": ["0.5", "0.1", "-2.0"],
                "f64": ["0.5", "0.1", "1e300"],
                "text": ["''", "'a'", "'7'"],
            }
            text = self.random.choice(literals[kind])
            ours = {"f32": f"cast({text} as float32)", "f64": f"cast({text} as float64)"}.get(kind, text)
            return Pair(ours, f"({text})::{SQL[kind]}", kind)
        name = self.random.choice([c for c, k in COLUMNS.items() if k == kind])
        return Pair(name, f"{name}::{SQL[kind]}", kind)

    def any(self, kind: str, depth: int) -> Pair:
        if depth == 0:
            return self.column(kind)
        if self.random.random() < 0.3:
            return self.choice(kind, depth)
        make: Any = {"bool": self.truth, "int": self.whole, "text": self.text}.get(kind, self.real)
        pair: Pair = make(kind, depth)
        return pair

    def choice(self, kind: str, depth: int) -> Pair:
        a, b, c = (self.any(kind, depth - 1) for _ in range(3))
        p, q = self.any("bool", depth - 1), self.any("bool", depth - 1)
        return self.random.choice([
            Pair(f"case when {p.ours} then {a.ours} when {q.ours} then {b.ours} else {c.ours} end",
                 f"(case when {p.sql} then {a.sql} when {q.sql} then {b.sql} else {c.sql} end)", kind),
            Pair(f"case when {p.ours} then {a.ours} end", f"(case when {p.sql} then {a.sql} end)", kind),
            Pair(f"coalesce({a.ours}, {b.ours})", f"coalesce({a.sql}, {b.sql})", kind),
            Pair(f"nullif({a.ours}, {b.ours})",
                 f"(case when {self.compared('==', a, b)} then null else {a.sql} end)", kind),
        ])  # fmt: skip

    def compared(self, op: str, a: Pair, b: Pair) -> str:
        """A comparison in SQL."""
        if a.kind in ("text", "bool"):
            return f"({a.sql} {op.replace('==', '=')} {b.sql})"
        if a.kind == "int" and b.kind != "int":
            return f"(mixed_({a.sql}, ({b.sql})::double) {TESTS[op]})"
        if b.kind == "int" and a.kind != "int":
            return f"(mixed_({b.sql}, ({a.sql})::double) {TESTS[MIRRORED.get(op, op)]})"
        if a.kind == "int":
            return f"({a.sql} {op.replace('==', '=')} {b.sql})"
        return f"(order_(({a.sql})::double, ({b.sql})::double) {TESTS[op]})"

    def number(self, depth: int) -> Pair:
        return self.any(self.random.choice(["int", "f32", "f64"]), depth)

    def truth(self, _: str, depth: int) -> Pair:
        depth -= 1
        p, q = self.any("bool", depth), self.any("bool", depth)
        x, y, z = (self.number(depth) for _ in range(3))
        s, u = self.any("text", depth), self.any("text", depth)
        op = self.random.choice(list(TESTS))
        low, high = self.compared(">=", x, y), self.compared("<=", x, z)
        return self.random.choice([
            Pair(f"({p.ours} and {q.ours})", f"({p.sql} and {q.sql})", "bool"),
            Pair(f"({p.ours} or {q.ours})", f"({p.sql} or {q.sql})", "bool"),
            Pair(f"(not ({p.ours}))", f"(not {p.sql})", "bool"),
            Pair(f"({x.ours} {op} {y.ours})", self.compared(op, x, y), "bool"),
            Pair(f"({x.ours} {op} {y.ours})", self.compared(op, x, y), "bool"),
            Pair(f"({s.ours} {op} {u.ours})", self.compared(op, s, u), "bool"),
            Pair(f"({x.ours} between {y.ours} and {z.ours})", f"({low} and {high})", "bool"),
            Pair(f"({x.ours} is null)", f"({x.sql} is null)", "bool"),
            Pair(f"({s.ours} not in ('a', '7'))", f"({s.sql} not in ('a', '7'))", "bool"),
        ])  # fmt: skip

    def whole(self, _: str, depth: int) -> Pair:
        a, b = (varying(self.any("int", depth - 1)) for _ in range(2))
        s, p = self.any("text", depth - 1), self.any("bool", depth - 1)
        x = self.any(self.random.choice(["f32", "f64"]), depth - 1)
        op = self.random.choice("+-*")
        return self.random.choice([
            Pair(f"({a.ours} {op} {b.ours})", f"try({a.sql} {op} {b.sql})", "int"),
            Pair(f"({a.ours} {op} {b.ours})", f"try({a.sql} {op} {b.sql})", "int"),
            Pair(f"({a.ours} % {b.ours})", f"mod_({a.sql}, {b.sql})", "int"),
            Pair(f"-({a.ours})", f"try(0 - {a.sql})", "int"),
            Pair(f"abs({a.ours})", f"try(abs({a.sql}))", "int"),
            Pair(f"least({a.ours}, {b.ours})", f"least({a.sql}, {b.sql})", "int"),
            Pair(f"cast({x.ours} as int64)", f"whole_(({x.sql})::double)", "int"),
            Pair(f"cast({p.ours} as int64)", f"({p.sql})::bigint", "int"),
            Pair(f"cast({s.ours} as int64)", f"parsed_({s.sql})", "int"),
            Pair(f"length({s.ours})", f"length({s.sql})", "int"),
        ])  # fmt: skip

    def real(self, kind: str, depth: int) -> Pair:
        a, b = self.any(kind, depth - 1), self.any(kind, depth - 1)
        n, other = varying(self.any("int", depth - 1)), varying(self.number(depth - 1))
        s = self.any("text", depth - 1)
        op, of = self.random.choice("+-*/"), SQL[kind]
        name, end = (
            self.random.choice(["abs", "floor", "ceil", "round", "sqrt"]),
            self.random.choice(["least", "greatest"]),
        )
        made = [
            Pair(f"({a.ours} {op} {b.ours})", f"({a.sql} {op} {b.sql})::{of}", kind),
            Pair(f"-({a.ours})", f"(-({a.sql}))", kind),
            Pair(f"{name}({a.ours})", f"{name}({a.sql})::{of}", kind),
            Pair(f"{end}({a.ours}, {b.ours})", f"{end}_({a.sql}, {b.sql})", kind),
            Pair(
                f"cast({other.ours} as {'float32' if kind == 'f32' else 'float64'})",
                f"narrow_(({other.sql})::double)" if kind == "f32" else f"({other.sql})::double",
                kind,
            ),
        ]
        if kind == "f64":
            made += [
                Pair(f"({n.ours} / {other.ours})", f"(({n.sql})::double / ({other.sql})::double)", kind),
                Pair(f"cast({s.ours} as float64)", f"try_cast({s.sql} as double)", kind),
            ]
        return self.random.choice(made)

    def text(self, _: str, depth: int) -> Pair:
        s, x, p = self.any("text", depth - 1), self.number(depth - 1), self.any("bool", depth - 1)
        name = self.random.choice(["lower", "upper"])
        return self.random.choice([
            Pair(f"{name}({s.ours})", f"{name}({s.sql})", "text"),
            Pair(f"cast({x.ours} as text)", f"replace(({x.sql})::varchar, '-nan', 'nan')", "text"),
            Pair(f"cast({p.ours} as text)", f"({p.sql})::varchar", "text"),
        ])  # fmt: skip

    def outermost(self) -> Pair:
        """An expression, at times within a function of which libraries have different last bits."""
        kind, depth = self.random.choice(list(SQL)), self.random.choice([1, 2, 2])
        if kind == "f64" and self.random.random() < 0.5:
            x = self.any(kind, 1)
            return self.random.choice([
                Pair(f"exp({x.ours})", f"exp({x.sql})", kind, rough=True),
                Pair(f"ln({x.ours})", f"ln({x.sql})", kind, rough=True),
                Pair(f"pow({x.ours}, 1.5)", f"pow({x.sql}, 1.5)", kind, rough=True),
                Pair(f"pow({x.ours}, cast(i as float64))", f"pow({x.sql}, i::double)", kind, rough=True),
            ])  # fmt: skip
        return self.any(kind, depth)


def some_rows(seed: int) -> pa.Table:
    """Columns with nulls, NaN and extremes."""
    draw = random.Random(seed)
    of: dict[str, tuple[list[Any], pa.DataType]] = {
        "b": ([True, False], pa.bool_()),
        "i": ([-(2**31), -3, -1, 0, 1, 2, 7, 2**31 - 1], pa.int32()),
        "l": ([-(2**63), -(2**53) - 1, -7, -1, 0, 1, 10, 2**53 + 1, 2**63 - 1], pa.int64()),
        "f": ([0.0, 0.1, 0.5, -2.5, 3.0, 1e-40, 3e38, math.inf, math.nan], pa.float32()),
        "d": ([0.0, 0.1, 0.5, -2.5, 3.0, 1e16, 1e-5, 2.0**53, 2.0**63, -1e300, -math.inf, math.nan], pa.float64()),
        "t": (["", "a", "A", "zz", "7", "-12", "Ünï", "\U0001f600"], pa.string()),
    }  # fmt: skip
    columns = {"row": pa.array(range(ROWS), pa.int64())}
    for name, (values, kind) in of.items():
        columns[name] = pa.array([draw.choice([*values, None]) for _ in range(ROWS)], kind)
    return pa.table(columns)


def same(got: Any, want: Any, *, rough: bool) -> bool:
    if isinstance(want, float) and isinstance(got, float):
        if rough and math.isfinite(want) and math.isfinite(got):
            return math.isclose(got, want, rel_tol=1e-13, abs_tol=1e-300)
        return got == want or (math.isnan(got) and math.isnan(want))
    return bool(got == want)


def test_derived_columns_and_filters_are_those_of_duckdb(tmp_path: Path) -> None:
    import duckdb  # which the other Pythons lack

    seed = random.randrange(1 << 32)
    rows, writer = some_rows(seed), Writer(seed)
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=100)
    pairs = [writer.outermost() for _ in range(120)]
    transforms, features = [], penstock.label("row")
    none = {"bool": "false", "int": "0", "f32": "0", "f64": "0", "text": "''"}
    for i, pair in enumerate(pairs):
        transforms += [
            penstock.expr(pair.ours, out=f"raw{i}"),
            penstock.expr(f"coalesce(raw{i}, {none[pair.kind]})", out=f"value{i}"),
            penstock.expr(f"raw{i} is null", out=f"null{i}"),
        ]
        features += penstock.bytes_(f"value{i}") if pair.kind == "text" else penstock.label(f"value{i}")
        features += penstock.label(f"null{i}")
    with penstock.DataLoader(
        str(tmp_path), features=features, transforms=transforms, batch_size=ROWS, format="arrow", epochs=1
    ) as loader:
        got = pa.Table.from_batches([batch.to_arrow() for batch in loader]).sort_by("row")
    with duckdb.connect() as db:
        db.execute(MACROS)
        db.register("rows", rows)
        selected = ", ".join(f"{pair.sql} as c{i}" for i, pair in enumerate(pairs))
        want = db.sql(f"select {selected} from rows order by row").to_arrow_table()
    for i, pair in enumerate(pairs):
        values, nulls = got.column(f"value{i}").to_pylist(), got.column(f"null{i}").to_pylist()
        for row, expected in enumerate(want.column(f"c{i}").to_pylist()):
            value = None if nulls[row] else values[row]
            value = value.decode() if isinstance(value, bytes) else value
            assert same(value, expected, rough=pair.rough), (
                f"seed {seed}: {pair.ours} of {rows.slice(row, 1).to_pylist()}: {value!r}, DuckDB {expected!r}"
            )
    check_filters(tmp_path, rows, [pair for pair in pairs if pair.kind == "bool"][:8], seed)


def check_filters(folder: Path, rows: pa.Table, conditions: list[Pair], seed: int) -> None:
    import duckdb  # which the other Pythons lack

    assert len(conditions) > 4
    with duckdb.connect() as db:
        db.execute(MACROS)
        db.register("rows", rows)
        for pair in conditions:
            with penstock.DataLoader(
                str(folder), features=penstock.label("row"), filter=f"({pair.ours}) and row >= 3", batch_size=ROWS,
                format="numpy", epochs=1,
            ) as loader:  # fmt: skip
                got = sorted(row for batch in loader for row in batch.labels["row"].tolist())
            want = db.execute(f"select row from rows where {pair.sql} and row >= 3 order by row").fetchall()
            assert got == [row for (row,) in want], f"seed {seed}: {pair.ours}"


def test_samples_of_some_rows(tmp_path: Path) -> None:
    rows = some_rows(1)
    pq.write_table(rows, tmp_path / "rows.parquet")

    def sampled(**sample: Any) -> set[int]:
        with penstock.DataLoader(
            str(tmp_path), features=penstock.label("row"), transforms=[penstock.sample(0.3, **sample)], batch_size=ROWS,
            format="numpy", epochs=1, seed=5,
        ) as loader:  # fmt: skip
            return {row for batch in loader for row in batch.labels["row"].tolist()}

    drawn = sampled()
    ones = {row["row"] for row in rows.to_pylist() if row["i"] == 1}
    assert sampled(where="i == 1") == {row for row in range(ROWS) if row in drawn or row not in ones}
    assert ones - drawn
