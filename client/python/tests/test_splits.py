"""Folders with splits, as the library datasets has them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock

README = "---\nconfigs:\n- {config_name: en, data_dir: en}\n- {config_name: de, data_files: 'de/*'}\n---\n"


def test_a_split_is_read(tmp_path: Path) -> None:
    for at, name in enumerate(("en/train.parquet", "en/test.parquet", "de/all.parquet")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"n": [at]}), tmp_path / name)
    (tmp_path / "README.md").write_text(README)

    def read(split: str, subset: str) -> list[float]:
        features = penstock.dense("n")
        with penstock.DataLoader(
            tmp_path, split=split, subset=subset, features=features, batch_size=9, epochs=1, format="numpy"
        ) as loader:
            return sorted(row[0] for batch in loader for row in batch.dense.tolist())

    assert read("train", "en") == [0]
    assert read("all", "en") == [0, 1]
    assert read("", "de") == [2]
    with pytest.raises(penstock.errors.SpecError, match=r"dataset\.split: .*there are train and test"):
        read("dev", "en")
    with pytest.raises(penstock.errors.SpecError, match=r"dataset\.subset: .*en and de: write dataset\.subset: en"):
        read("train", "")
    assert [c.first for c in penstock.schema(tmp_path, split="test", subset="en")] == [(1,)]
