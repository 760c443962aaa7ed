"""The programs in examples/, run as they stand: each trains, serves, and compares the two."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from penstock import _binary
from tests.conftest import REPOSITORY

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
