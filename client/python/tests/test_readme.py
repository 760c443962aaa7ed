"""The main README's Python, run as it stands."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import REPOSITORY

ROWS = 3000


def test_the_readme_reads_all_rows(
    penstock_binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (REPOSITORY / "README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    convert = re.search(r"^    penstock (convert .*?)  #", text, re.MULTILINE)
    assert convert
    lines = ["label\tint_0\tcat_0", *(f"{i % 2}\t{i - 9}\t{i:08x}" for i in range(ROWS))]
    (tmp_path / "clicks.tsv").write_text("\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_BINARY", str(penstock_binary))
    subprocess.run(f'"$PENSTOCK_BINARY" {convert[1]}', shell=True, check=True)
    seen: list[np.ndarray] = []

    def train(dense: np.ndarray, values: np.ndarray, offsets: np.ndarray, label: np.ndarray) -> None:
        assert np.isfinite(dense).all()
        assert len(dense) == len(label) == len(offsets) - 1 and offsets[-1] == len(values)
        seen.append(dense[:, 0])

    names: dict[str, object] = {"train": train}
    exec(compile(code, "README.md", "exec"), names)
    names["loader"].close()  # type: ignore[attr-defined]
    expected = np.log1p(np.maximum(np.arange(ROWS, dtype=np.float32) - 9, 0))
    np.testing.assert_allclose(np.sort(np.concatenate(seen)), expected, rtol=1e-6)
    assert capsys.readouterr().out.strip(), "no verdict was printed"
    assert "state" in str(names["checkpoint"])
