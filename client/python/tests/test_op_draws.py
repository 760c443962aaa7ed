"""What functions with rng=True draw from, without a worker."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock import _op_draws
from penstock._op_call import Function
from penstock._op_values import Array, Declared
from penstock.errors import NotRepeatable, SpecError

pytestmark = pytest.mark.every_python

SEEDS = np.array([0, 1, 1 << 63, (1 << 64) - 1, 1], np.uint64)


def test_the_generator_begins_as_a_new_one() -> None:
    generators = _op_draws.Generators()
    for seed in SEEDS.tolist():
        used, new = generators.begin(seed), np.random.Generator(np.random.Philox(key=seed))
        for _ in range(3):
            assert used.random() == new.random()
            assert used.integers(0, 10, dtype=np.uint8) == new.integers(0, 10, dtype=np.uint8)
            assert (used.normal(size=5) == new.normal(size=5)).all()
            assert (used.permutation(9) == new.permutation(9)).all()


@pytest.mark.parametrize("kind", ["map", "flat_map", "filter"])
def test_rows_draw_from_generators_of_their_own(kind: str) -> None:
    def draw(x: int, rng: np.random.Generator, most: int) -> Any:
        value = int(rng.integers(most))
        return {"map": value, "flat_map": [value, int(rng.integers(most))], "filter": value % 2 == 0}[kind]

    outs = [] if kind == "filter" else [Declared("int64")]
    made = Function({"call": draw, "kwargs": {"most": 1000}}, "rows", outs, "draw", kind, rng=True)
    found = made.call([pa.array(range(5))], 5, SEEDS)
    wanted = []
    for seed in SEEDS.tolist():
        rng = np.random.Generator(np.random.Philox(key=seed))
        wanted.append([int(rng.integers(1000)), int(rng.integers(1000))])
    if kind == "filter":
        assert found.parents is not None
        assert found.parents.tolist() == [row for row, (first, _) in enumerate(wanted) if first % 2 == 0]
    else:
        many = 1 if kind == "map" else 2
        assert found.results[0].to_pylist() == [value for both in wanted for value in both[:many]]


@pytest.mark.parametrize("by", ["arrow", "numpy"])
def test_arrays_come_with_seeds(by: str) -> None:
    def draw(x: Any, seeds: Array) -> Any:
        assert seeds.dtype == np.uint64 and isinstance(seeds, np.ndarray)
        return (seeds >> np.uint64(1)).astype(np.int64)

    class Draw:
        def __call__(self, x: Any, seeds: Array) -> Any:
            return draw(x, seeds)

    for called in (draw, Draw):
        made = Function({"call": called}, by, [Declared("int64")], "draw", rng=True)
        assert made.call([pa.array(range(5))], 5, SEEDS).results[0].to_pylist() == [int(s) >> 1 for s in SEEDS]


def test_check_gives_each_row_a_seed_of_its_own() -> None:
    table = pa.table({"x": range(40)})
    by_rows = penstock.op(lambda x, rng: rng.random(), out={"u": penstock.float64}, by="rows", rng=True, name="u")
    values = penstock.check(by_rows("x"), table)["u"].to_pylist()
    assert len(set(values)) == 40
    assert penstock.check(by_rows("x"), table.slice(0, 9))["u"].to_pylist() == values[:9]
    by_arrays = penstock.op(
        lambda x, seeds: (seeds % np.uint64(7)).astype(np.int32),
        out={"m": penstock.int32},
        by="numpy",
        rng=True,
        name="m",
    )
    assert set(penstock.check(by_arrays("x"), table)["m"].to_pylist()) == set(range(7))
    whole = penstock.op(
        lambda x, seeds: np.random.default_rng(seeds[:1]).random(len(x)), out={"u": penstock.float64}, by="numpy",
        rng=True, name="whole",
    )  # fmt: skip
    with pytest.raises(NotRepeatable, match="halves differ"):
        penstock.check(whole("x"), table)


def test_functions_must_take_what_they_draw_from() -> None:
    with pytest.raises(SpecError, match=r"draw: .*rng.*, where the inputs are x"):
        penstock.op(lambda x: x, out=penstock.int64, by="rows", rng=True, name="draw")("x")
    with pytest.raises(SpecError, match=r"draw: .*'rng', where the inputs are x"):
        penstock.op(lambda x, rng: x, out=penstock.int64, rng=True, name="draw")("x")
    with pytest.raises(SpecError, match="kwargs= has rng, which rng=True gives it"):
        penstock.op(lambda x, rng: x, out=penstock.int64, by="rows", rng=True, kwargs={"rng": 1}, name="draw")
    plain = penstock.op(lambda x, rng=None: x, out=penstock.int64, by="rows")
    drawing = penstock.op(lambda x, rng=None: x, out=penstock.int64, by="rows", rng=True)
    assert "rng" not in plain.message(0)
    assert drawing.message(0)["rng"] is True
