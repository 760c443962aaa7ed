"""An environment is that of a session, or says which versions differ."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from penstock import _versions

THERE = "where the session was opened"

pytestmark = pytest.mark.every_python


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "made_up-2.0.1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: Made.Up\nVersion: 2.0.1+cu121\n")
    (tmp_path / "says_so.py").write_text("__version__ = '3.1+local'\n")
    (tmp_path / "says_none.py").write_text("")
    (tmp_path / "fails.py").write_text("raise SystemError\n")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize(
    ("wanted", "distributions", "difference"),
    [
        ("", [], ""),
        (f"{sys.version_info.major}.{sys.version_info.minor}", [f"numpy=={np.__version__}", "made-up==2.0.1"], ""),
        ("", ["of-no-version", "says-none"], ""),
        ("", ["says_so==3.1"], ""),
        ("2.7", [], f"Python is {_versions.python()} here, and 2.7 {THERE}"),
        ("", ["made-up==2.1.0"], f"made-up is 2.0.1 here, and 2.1.0 {THERE}"),
        ("", ["says_so==4", "numpy==0.1", "gone==1"],
         (f"says_so is 3.1 here, and 4 {THERE}, numpy is {np.__version__} here, and 0.1 {THERE}, "
         f"gone is not here, and 1 {THERE}")),
        ("", ["fails==1"], f"fails is not here, and 1 {THERE}"),
        ("", ["says_none==1"], f"says_none is not here, and 1 {THERE}"),
    ],
)  # fmt: skip
def test_differences(made_up: None, wanted: str, distributions: list[str], difference: str) -> None:
    assert _versions.difference(wanted, distributions) == difference
