"""The example as its docstring says: it learns, and goes on from a checkpoint to the row."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.conftest import REPOSITORY

EXAMPLE = REPOSITORY / "client/python/examples/dlrm.py"
CLICKS = Path(os.environ.get("PENSTOCK_TESTDATA", REPOSITORY.parent / "shared/data")) / "criteo"


@dataclass(frozen=True)
class Run:
    losses: list[float]
    rows: int
    output: str


def dlrm(binary: Path, *args: str) -> Run:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), *args],
        env={**os.environ, "PENSTOCK_BINARY": str(binary), "OMP_NUM_THREADS": "1"},
        check=False, capture_output=True, text=True, timeout=110,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    losses = [float(x) for x in re.findall(r"loss (\d+\.\d+)", done.stdout)]
    rows = re.search(r"trained on (\d+) rows", done.stdout)
    assert rows, done.stdout
    return Run(losses, int(rows[1]), done.stdout)


def penstock(binary: Path, *args: str) -> str:
    return subprocess.run([str(binary), *args], check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def generated(penstock_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    cache = tmp_path_factory.mktemp("generated")
    return penstock(penstock_binary, "demo", "dataset", "--rows=40000", f"--cache={cache}")


@pytest.fixture(scope="module")
def criteo(penstock_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The first rows of Criteo's click logs, as Parquet."""
    out = tmp_path_factory.mktemp("criteo") / "data"
    tsv = CLICKS / "day_11_first_3k_rows.tsv"
    if not tsv.exists() and not os.environ.get("CI"):
        pytest.skip(f"{tsv} is not there; PENSTOCK_TESTDATA names the folder that holds criteo/")
    penstock(penstock_binary, "convert", str(tsv), f"--out={out}", "--columns=criteo")
    return str(out)


def test_learns_and_resumes_on_the_generated_set(penstock_binary: Path, generated: str, tmp_path: Path) -> None:
    args = [f"--data={generated}", f"--checkpoint={tmp_path / 'dlrm.pt'}", "--batch-size=256", "--log-every=25"]
    first = dlrm(penstock_binary, *args, "--steps=100")
    assert first.rows == 100 * 256
    assert first.losses[-1] < first.losses[0] - 0.02
    assert dlrm(penstock_binary, *args, "--steps=80").rows == 0  # they are done
    second = dlrm(penstock_binary, *args, "--steps=120")
    assert "goes on from" in second.output
    assert "step 120 loss" in second.output
    assert second.rows == 20 * 256
    third = dlrm(penstock_binary, *args)
    assert first.rows + second.rows + third.rows == 40_000
    assert third.losses[-1] < first.losses[0] - 0.02


def test_learns_and_resumes_on_real_clicks(penstock_binary: Path, criteo: str, tmp_path: Path) -> None:
    total = 3 * sum(pq.read_metadata(f).num_rows for f in Path(criteo).glob("**/*.parquet"))
    args = [
        f"--data={criteo}",
        f"--checkpoint={tmp_path / 'dlrm.pt'}",
        "--batch-size=64",
        "--epochs=3",
        "--log-every=20",
    ]
    first = dlrm(penstock_binary, *args, "--steps=60")
    second = dlrm(penstock_binary, *args)
    assert first.rows + second.rows == total
    assert second.losses[-1] < first.losses[0]


def test_trains_on_two_ranks(penstock_binary: Path, generated: str) -> None:
    fleet = subprocess.Popen(
        [str(penstock_binary), "local", "--listen=127.0.0.1:0", "--end-with-stdin", "--output=json"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert fleet.stdout is not None and fleet.stdin is not None
    up = json.loads(fleet.stdout.readline())
    try:
        done = subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(EXAMPLE),
             f"--data={generated}", f"--fleet={up['address']}", "--batch-size=256"],
            env={**os.environ, "PENSTOCK_TOKEN_FILE": up["token_file"], "OMP_NUM_THREADS": "1"},
            check=False, capture_output=True, text=True, timeout=110,
        )  # fmt: skip
    finally:
        fleet.stdin.close()
        fleet.wait(timeout=30)
        fleet.stdout.close()
    assert done.returncode == 0, done.stdout + done.stderr
    rows = re.findall(r"rank \d: trained on (\d+) rows", done.stdout)
    assert len(rows) == 2
    assert sum(map(int, rows)) == 40_000
