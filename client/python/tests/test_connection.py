"""Fleets with tokens and certificates."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import penstock

if TYPE_CHECKING:
    from tests.conftest import Dataset, Fleet


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with the token."""
    (tmp_path / "token").write_text("secret")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def certificate(folder: Path, names: str = "IP:127.0.0.1") -> list[str]:
    """Flags of ports with a certificate that signs itself, for this machine unless other names are given."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-subj", "/CN=penstock", "-addext", f"subjectAltName={names}", "-keyout", "key.pem", "-out", "ca.pem"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    return [f"--tls-cert={folder}/ca.pem", f"--tls-key={folder}/key.pem", f"--tls-ca={folder}/ca.pem"]


def read(dataset: Dataset, fleet: Fleet) -> int:
    """How many rows a loader gets."""
    connection = penstock.Connection(token_file="token", ca="ca.pem")
    features = penstock.dense("int_*")
    with penstock.DataLoader(dataset.uri, features=features, batch_size=500, master=fleet.master, connection=connection,
                             epochs=1) as loader:  # fmt: skip
        return sum(len(batch) for batch in loader)


def test_tokens_and_tls(dataset: Dataset, fleet: Fleet, folder: Path) -> None:
    ports = certificate(folder)
    fleet.start(workers=1, token="secret", master_flags=ports, worker_flags=ports)
    assert read(dataset, fleet) == dataset.rows


def test_one_name_for_the_whole_fleet(
    dataset: Dataset, fleet: Fleet, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports = [*certificate(folder, "DNS:penstock"), "--tls-server-name=penstock"]
    fleet.start(workers=1, token="secret", master_flags=ports, worker_flags=ports)
    with pytest.raises(penstock.errors.MasterUnreachable, match="ca="):
        read(dataset, fleet)
    monkeypatch.setenv("PENSTOCK_TLS_SERVER_NAME", "penstock")
    assert read(dataset, fleet) == dataset.rows
