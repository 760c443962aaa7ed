"""Maps of lists and of maps as feature tables have them, key by key, beside what pyarrow reads."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import penstock
from penstock import _binary
from penstock.errors import SpecError
from penstock.loader import DataLoader
from tests.conftest import Fleet

ROWS = 400
IDS = pa.map_(pa.int64(), pa.list_(pa.int64()))
SCORES = pa.map_(pa.string(), pa.map_(pa.int64(), pa.float32()))


def table(repeated: bool) -> pa.Table:
    """Nulls at every level, missing keys, keys with dots and, if asked for, keys that a row has twice."""
    rng = np.random.default_rng(3)

    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.15 else value

    def keys(all_keys: list[Any]) -> list[Any]:
        n = int(rng.integers(0, len(all_keys) + 1))
        return [all_keys[k] for k in rng.choice(len(all_keys), n, replace=repeated)]

    def ids() -> Any:
        return maybe([maybe(int(x)) for x in rng.integers(0, 1000, int(rng.integers(0, 4)))])

    def scored() -> Any:
        return maybe([(int(x), maybe(float(x) / 8)) for x in rng.choice(50, int(rng.integers(0, 4)), replace=False)])

    bags = [maybe([(k, ids()) for k in keys([-1, 5, 42])]) for _ in range(ROWS)]
    scores = [maybe([(k, scored()) for k in keys(["a.b", "c", "key"])]) for _ in range(ROWS)]
    return pa.table({"label": range(ROWS), "ids": pa.array(bags, IDS), "scores": pa.array(scores, SCORES)})


def wanted(of: pa.Table, key: object, column: str) -> list[Any]:
    """The last entry of a key in each row, as pyarrow reads it."""
    return [dict(row or []).get(key) or [] for row in of[column].to_pylist()]


@pytest.mark.parametrize("writer", ["pyarrow", "arrow"])
def test_unsigned_keys_are_what_they_are(shared_fleet: Fleet, tmp_path: Path, writer: str) -> None:
    last = 2**64 - 1
    of = pa.table({"far": pa.array([[(last, [i]), (1, [])] for i in range(3)], pa.map_(pa.uint64(), IDS.item_type))})
    if writer == "arrow":
        feather.write_feather(of, tmp_path / "a.arrow")
    else:
        pq.write_table(of, tmp_path / "a.parquet")
    features, data, master = penstock.sparse(f"far.{last}"), str(tmp_path), shared_fleet.master
    with DataLoader(data, features=features, batch_size=3, format="numpy", master=master, epochs=1) as loader:
        assert sorted(np.asarray(next(iter(loader)).sparse[f"far.{last}"].values).tolist()) == [0, 1, 2]
    with (
        pytest.raises(SpecError, match=r'far\.-1: the keys of map far are uint64, and "-1" is none'),
        DataLoader(data, features=penstock.sparse("far.-1"), batch_size=3, master=master) as loader,
    ):
        next(iter(loader))
    shown = subprocess.run([str(_binary.find()), "show", data], capture_output=True, check=True, text=True).stdout
    assert "map<uint64>" in shown and f"far.key=[{last}, 1]" in shown


@pytest.mark.parametrize("writer", ["pyarrow", "duckdb", "arrow"])
def test_keys_are_features(shared_fleet: Fleet, tmp_path: Path, writer: str) -> None:
    of = table(repeated=writer != "duckdb")  # which refuses them
    path = tmp_path / "data" / ("a.arrow" if writer == "arrow" else "a.parquet")
    path.parent.mkdir()
    if writer == "pyarrow":
        pq.write_table(of, path, row_group_size=150, data_page_size=512)
    elif writer == "arrow":
        feather.write_feather(of, path, chunksize=150)
    else:
        import duckdb  # which the other Pythons lack

        duckdb.from_arrow(of).write_parquet(str(path))
    features = penstock.sparse("ids.42", "ids.-1", "ids.7") + penstock.label("label")
    for key in ("a.b", "key", "none"):
        features += penstock.sparse(f"scores.{key}.key", weights=f"scores.{key}.value")
    got: dict[str, dict[int, list[Any]]] = {}
    data, master = str(path.parent), shared_fleet.master
    with DataLoader(data, features=features, batch_size=64, format="numpy", master=master) as loader:
        for batch in loader:
            for name, ragged in batch.sparse.items():
                for i, label in enumerate(np.asarray(batch.label).tolist()):
                    lo, hi = ragged.offsets[i], ragged.offsets[i + 1]
                    values: list[Any] = np.asarray(ragged.values)[lo:hi].tolist()
                    if ragged.weights is not None:
                        weights = np.asarray(ragged.weights)[lo:hi].tolist()
                        values = [(v, None if w != w else w) for v, w in zip(values, weights, strict=True)]
                    got.setdefault(name, {})[label] = values
    for number in (42, -1, 7):  # sparse leaves null ids out
        want = [[x for x in row if x is not None] for row in wanted(of, number, "ids")]
        assert [got[f"ids.{number}"][i] for i in range(ROWS)] == want
    for key in ("a.b", "key", "none"):
        assert [got[f"scores.{key}.key"][i] for i in range(ROWS)] == wanted(of, key, "scores")
