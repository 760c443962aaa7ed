"""Maps as pyarrow and DuckDB write them, read by key before and after `penstock convert --flatten`."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.loader import DataLoader
from tests.conftest import Fleet
from tests.test_feature_maps import table

ROWS = 400


def older(of: pa.Table, path: Path) -> None:
    """Lists whose levels have their older names, in older pages."""
    pq.write_table(of, path, row_group_size=150, version="1.0", use_compliant_nested_type=False)


def duckdb(of: pa.Table, path: Path) -> None:
    import duckdb  # which the other Pythons lack

    duckdb.from_arrow(of).write_parquet(str(path))


def pyarrow(of: pa.Table, path: Path) -> None:
    pq.write_table(of, path, row_group_size=150, data_page_size=512)


def rows(folder: Path, master: str) -> dict[int, dict[str, Any]]:
    """Each label's features, as a loader has them."""
    features = penstock.sparse("ids.42", "ids.-1", "ids.7") + penstock.label("label")
    for key in ("a.b", "key", "c", "none"):
        features += penstock.sparse(f"scores.{key}.key", weights=f"scores.{key}.value")
    got: dict[int, dict[str, Any]] = {}
    with DataLoader(str(folder), features=features, batch_size=64, format="numpy", master=master) as loader:
        for batch in loader:
            for i, label in enumerate(np.asarray(batch.label).tolist()):
                of = got.setdefault(label, {})
                for name, ragged in batch.sparse.items():
                    lo, hi = ragged.offsets[i], ragged.offsets[i + 1]
                    weights = b"" if ragged.weights is None else np.asarray(ragged.weights)[lo:hi].tobytes()
                    of[name] = (np.asarray(ragged.values)[lo:hi].tolist(), weights)
    return got


@pytest.mark.parametrize("write", [pyarrow, duckdb, older])
@pytest.mark.parametrize("flatten", ["all", "rest"])
def test_specs_read_both_layouts(
    shared_fleet: Fleet, penstock_binary: Path, tmp_path: Path, write: Any, flatten: str
) -> None:
    of = table(repeated=write is not duckdb)  # which refuses them
    (tmp_path / "maps").mkdir()
    for i in range(2):
        write(of.slice(i * 200, 200), tmp_path / "maps" / f"{i}.parquet")
    flags = {
        "all": ["--flatten", "ids,scores"],
        "rest": ["--flatten", "ids=42,7", "--flatten", "scores=c"],
    }
    out = tmp_path / "flat"
    command = [str(penstock_binary), "convert", str(tmp_path / "maps"), "--out", str(out), "--verify"]
    done = subprocess.run([*command, *flags[flatten]], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names = pq.read_schema(next(out.iterdir())).names
    assert "ids.42" in names and ("scores.a.b.key" in names) == (flatten == "all"), names
    before, after = rows(tmp_path / "maps", shared_fleet.master), rows(out, shared_fleet.master)
    assert len(before) == ROWS
    assert after == before
