"""The package's page, run as it stands: what needs no torch. tests/torch/test_package_page.py has the rest."""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import penstock
from tests import page
from tests.conftest import write_dataset

if TYPE_CHECKING:
    from tests.conftest import Dataset, Fleet

PLAIN = [b.name for b in page.blocks() if b.language == "python" and not b.needs_torch]
READ_ALL = [
    "Groups of arguments-1", "Spec files-1", "Loops that read ahead-1", "On one machine-1", "What limits the loop-1",
    "What limits the loop-2",
]  # fmt: skip
CHECKED = [
    "Start-1", "Start-2", "First looks-1", "Epochs, length, map-1", "Epochs, length, map-2", "Validation-1",
    "Checkpoints-1", "Checkpoints-2", "Checkpoints-4", "Formats and devices-1", "Errors-1", "Tokens and TLS-1",
]  # fmt: skip


@pytest.fixture(scope="module")
def clicks(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Criteo's columns."""
    return write_dataset(tmp_path_factory.mktemp("page") / "criteo", files=3, rows=2000, dense=13, sparse=3)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, penstock_binary: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PENSTOCK_BINARY", str(penstock_binary))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_block_is_run_here_or_with_torch() -> None:
    assert sorted(PLAIN) == sorted(READ_ALL + CHECKED)
    assert [b.name for b in page.blocks() if b.language != "python"] == ["What limits the loop-3"]


@pytest.mark.parametrize("name", READ_ALL)
def test_loops_that_read_all_rows(
    name: str, clicks: Dataset, shared_fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    names = page.run(name, clicks, shared_fleet)
    ahead = sum(len(batch) for batch in list(names.get("ahead", ())))
    assert names["train"].rows + ahead == clicks.rows
    if name == "What limits the loop-1":
        assert names["stats"].rows == clicks.rows
        assert "trainer waited" in capsys.readouterr().out
    if name == "What limits the loop-2":
        events = [json.loads(line) for line in Path("events.jsonl").read_text().splitlines()]
        types = {event["type"] for event in events}
        assert {"penstock.joined", "penstock.epoch_end", "penstock.Stat"} <= types
        assert any(event["metadata"].get("train.loss.mean") == 0.5 for event in events)
        assert any("penstock.system.rss_bytes.max" in event["metadata"] for event in events)


def test_the_first_example(clicks: Dataset, shared_fleet: Fleet) -> None:
    names = page.run("Start-1", clicks, shared_fleet)
    assert names["loader"].stats().rows == clicks.rows
    assert names["batch"].dense.shape[1] == 13


def test_first_looks(clicks: Dataset, shared_fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    names = page.run("First looks-1", clicks, shared_fleet)
    said = capsys.readouterr().out
    for words in ("6,003 rows in 3 files:", 'penstock.dense("int_*") + penstock.sparse("cat_*")', "not open)"):
        assert words in said
    assert names["loader"].stats().rows == 0


def test_epochs(clicks: Dataset, shared_fleet: Fleet) -> None:
    names = page.run("Epochs, length, map-1", clicks, shared_fleet)
    assert names["train"].rows == 2 * clicks.rows
    assert {batch.epoch for batch in names["train"].batches} == {0, 1}


def test_map(clicks: Dataset, shared_fleet: Fleet) -> None:
    assert isinstance(page.run("Epochs, length, map-2", clicks, shared_fleet)["dense"], np.ndarray)


def test_validation(clicks: Dataset, shared_fleet: Fleet) -> None:
    validated = page.Trained()
    names = page.run("Validation-1", clicks, shared_fleet, validate=validated)
    assert names["train"].rows == 2 * clicks.rows
    assert [batch.epoch for batch in validated.batches] == [0, 0, 0, 1, 1, 1]


def test_checkpoints(clicks: Dataset, shared_fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    names = page.run("Checkpoints-1", clicks, shared_fleet)
    assert names["train"].rows == clicks.rows
    rest = page.run("Checkpoints-2", clicks, shared_fleet)
    assert rest["train"].rows == clicks.rows - 3 * page.BATCH


def test_named_checkpoints(shared_fleet: Fleet, penstock_binary: Path, tmp_path: Path) -> None:
    data = write_dataset(tmp_path / "criteo", files=2, rows=20_000, row_group=5_000, dense=3, sparse=3)
    command: list[Any] = [penstock_binary, "session", f"--master={shared_fleet.master}"]
    taking: list[subprocess.Popen[bytes]] = []
    session = f"named-{uuid.uuid4().hex}"  # also if the test is run once more
    models: dict[str, int] = {}  # by name: rows that they were trained on
    trained = page.Trained()

    def train(batch: penstock.Batch) -> float:
        taking[:] = taking or [subprocess.Popen([*command, "checkpoint", session, "noon"])]
        with contextlib.suppress(subprocess.TimeoutExpired):
            taking[0].wait(0.2)  # while it is taken, training takes its time
        return trained(batch)

    def save(name: str) -> None:
        models[name] = trained.rows

    page.run("Checkpoints-4", data, shared_fleet, session, train=train, save=save)
    assert taking[0].wait() == 0
    assert trained.rows == data.rows
    subprocess.run([*command, "restore", session, "noon"], check=True)
    loaded: list[str] = []
    rest = page.run("Checkpoints-4", data, shared_fleet, session, load=loaded.append)
    assert loaded == [list(models)[-1]]
    assert loaded[0].startswith("model-noon-")
    assert rest["train"].rows == data.rows - models[loaded[0]]


def test_formats(clicks: Dataset, shared_fleet: Fleet) -> None:
    names = page.run("Formats and devices-1", clicks, shared_fleet)
    assert names["table"].num_rows == page.BATCH
    assert names["first_row"].dtype == np.int64


def test_errors(clicks: Dataset, shared_fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    page.run("Errors-1", clicks, shared_fleet)
    assert "features[0]: no feature nothing" in capsys.readouterr().out
    named = {
        n for n, e in vars(penstock.errors).items() if isinstance(e, type) and issubclass(e, penstock.errors.Error)
    }
    text = page.PAGE.read_text()
    assert [n for n in named - {"Error"} if f"| `{n}`" not in text] == []


def test_tokens_and_tls(clicks: Dataset, fleet: Fleet, folder: Path) -> None:
    certificate(folder)
    ports = ["--tls-cert=ca.pem", "--tls-key=key.pem", "--tls-ca=ca.pem"]
    fleet.start(workers=1, token="secret", master_flags=ports, worker_flags=ports)
    (folder / "token").write_text("secret")
    assert page.run("Tokens and TLS-1", clicks, fleet)["train"].rows == clicks.rows


def test_one_name_for_the_whole_fleet(
    clicks: Dataset, fleet: Fleet, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate(folder, "DNS:penstock")
    ports = ["--tls-cert=ca.pem", "--tls-key=key.pem", "--tls-ca=ca.pem", "--tls-server-name=penstock"]
    fleet.start(workers=1, token="secret", master_flags=ports, worker_flags=ports)
    (folder / "token").write_text("secret")
    with pytest.raises(penstock.errors.MasterUnreachable, match="ca="):
        page.run("Tokens and TLS-1", clicks, fleet)
    monkeypatch.setenv("PENSTOCK_TLS_SERVER_NAME", "penstock")
    assert page.run("Tokens and TLS-1", clicks, fleet)["train"].rows == clicks.rows


def certificate(folder: Path, names: str = "IP:127.0.0.1") -> None:
    """One that signs itself, for this machine unless other names are given."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-subj", "/CN=penstock", "-addext", f"subjectAltName={names}", "-keyout", "key.pem", "-out", "ca.pem"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip


def test_doctor(shared_fleet: Fleet, penstock_binary: Path) -> None:
    code = page.on(page.block("What limits the loop-3").code, "", shared_fleet.master)
    command: list[Any] = shlex.split(code)
    assert command[0] == "penstock"
    done = subprocess.run([penstock_binary, *command[1:]], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert shared_fleet.master in done.stdout
