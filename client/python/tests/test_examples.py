"""The programs in examples/, run as they stand: each trains, serves, and compares the two."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import penstock
from penstock import _binary
from tests.conftest import REPOSITORY, Dataset

CLICKS = Path(os.environ.get("PENSTOCK_TESTDATA", REPOSITORY.parent / "shared/data")) / "criteo"


def program(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, REPOSITORY / "examples" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check(found: dict[str, Any]) -> None:
    assert found["differences"] == 0
    assert found["last"] < found["first"] and found["validation"] < found["first"]


def test_criteo(tmp_path: Path) -> None:
    logs = sorted(CLICKS.glob("*.tsv"))
    if not logs:
        pytest.skip(f"{CLICKS} has no logs; PENSTOCK_TESTDATA names the folder that holds criteo/")
    binary, data = _binary.find(), tmp_path / "data"
    assert binary is not None
    subprocess.run([binary, "convert", *logs, "--out", data, "--columns", "criteo"], check=True, capture_output=True)
    check(program("criteo").main(f"{data}/", tmp_path / "work", epochs=2))


def test_ratings(tmp_path: Path) -> None:
    check(program("ratings").main(tmp_path, epochs=2))


def test_the_service(dataset: Dataset, tmp_path: Path) -> None:
    """A model that was trained on a session's tensors gives served rows the scores that training's gets."""
    (tmp_path / "spec.yaml").write_text(
        f"dataset: {{uri: {dataset.dir}/}}\nbatch_size: 500\nfilter: int_0 is not null\nprovenance: true\n"
        "features: [{label: label}, {dense: int_*}]\ntransforms: [{op: log1p, in: int_*}]\n"
    )
    with penstock.DataLoader(spec=tmp_path / "spec.yaml", format="numpy") as loader:
        batch = next(iter(loader))
        dense = np.nan_to_num(batch.dense)
        weights = np.linalg.lstsq(np.c_[np.ones(len(dense)), dense], batch.label - 0.5, rcond=None)[0]
        want = 1 / (1 + np.exp(-(dense @ weights[1:] + weights[0])))
        rows = [dataset.files[f].slice(r, 1).to_pylist()[0] for f, r in zip(batch.files, batch.rows, strict=True)]
    for row in rows:
        del row["label"]  # it is not known
    np.save(tmp_path / "weights.npy", weights)
    service = subprocess.Popen(
        [
            sys.executable, REPOSITORY / "examples/serve.py", "--spec", tmp_path / "spec.yaml",
            "--schema", dataset.dir / "part-000.parquet", "--model", tmp_path / "weights.npy", "--port", "0",
        ],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(REPOSITORY / "client/python/src")},
    )  # fmt: skip
    try:
        assert service.stdout is not None
        url = service.stdout.readline().strip()
        assert posted(url, rows) == (200, {"scores": want.tolist()})
        status, said = posted(url, [{**rows[0], "int_0": "x"}])
        assert status == 400 and "column int_0, which in training is float: row 0: " in said["error"]
    finally:
        service.kill()
        service.communicate()


def posted(url: str, rows: Any) -> tuple[int, Any]:
    request = urllib.request.Request(url, json.dumps(rows).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as err:
        with err:
            return err.code, json.load(err)
