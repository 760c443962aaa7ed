"""Downloads by ranges from a web server: Penstock's stores beside Python's clients, and Go's net/http.

`python -m peers.downloads --peers PROGRAM` starts nginx on this machine with a file of 256 MiB, reads it with each
client in a process of its own, 512 MiB or 2,048 ranges a pass, four at once, and prints MB per CPU second of that
process: the median of the passes behind one that is not measured. net/http throws the bytes away, the others keep them
in memory; hf_hub_download writes the whole file to /dev/shm.

nginx answers as a web server and as a Hugging Face Hub of one dataset, each with TLS, and as a web server without it.
Of a certificate it needs openssl.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SIZE, TOTAL, AT_ONCE = 256 << 20, 512 << 20, 4
RANGES = (64 << 10, 1 << 20, 8 << 20)
COMMIT = "0123456789abcdef0123456789abcdef01234567"
SERVERS = ("https", "http", "hub")
PYTHON = ("requests", "aiohttp", "fsspec")

CONFIG = """
daemon off; master_process off; pid {dir}/pid; error_log {dir}/errors; worker_rlimit_nofile 1024;
events {{}}
http {{
  access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000; ssl_session_tickets on;
  client_body_temp_path {dir}/b; proxy_temp_path {dir}/p; fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u;
  scgi_temp_path {dir}/s;
  server {{ listen 127.0.0.1:{plain}; root {dir}/files; }}
  server {{
    listen 127.0.0.1:{tls} ssl; ssl_certificate {dir}/cert.pem; ssl_certificate_key {dir}/key.pem; root {dir}/files;
    location /datasets/org/name/resolve/ {{
      add_header X-Repo-Commit {commit}; rewrite ^/datasets/org/name/resolve/[^/]*/(.*)$ /$1 break;
    }}
    location /api/datasets/org/name/revision/ {{ default_type application/json; return 200 '{{"sha":"{commit}"}}'; }}
    location /api/datasets/org/name/paths-info/ {{ default_type application/json;
      return 200 '[{{"type":"file","path":"data.bin","size":{size},"oid":"{commit}"}}]'; }}
  }}
}}
"""
PROFILES = """
profiles:
  https: {{type: https, hosts: ["127.0.0.1:{tls}"], allow_addresses: [127.0.0.1/32], ca_file: {dir}/cert.pem}}
  http: {{type: https, hosts: ["127.0.0.1:{plain}"], allow_addresses: [127.0.0.1/32], plain: true}}
  hub: {{type: hf, endpoint: "https://127.0.0.1:{tls}", allow_addresses: [127.0.0.1/32], ca_file: {dir}/cert.pem}}
"""


@contextmanager
def nginx() -> Iterator[tuple[Path, dict[str, str]]]:
    """A folder with the certificate and the profiles, and the servers' URLs of the file."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as scratch:
        folder = Path(scratch)
        (folder / "files").mkdir()
        (folder / "files/data.bin").write_bytes(os.urandom(SIZE))
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
             "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key.pem",
             "-out", folder / "cert.pem"], check=True, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        names = {"dir": scratch, "plain": free_port(), "tls": free_port(), "commit": COMMIT, "size": SIZE}
        (folder / "nginx.conf").write_text(CONFIG.format(**names))
        (folder / "storage.yaml").write_text(PROFILES.format(**names))
        folder.chmod(0o755)
        binary = shutil.which("nginx") or "/usr/sbin/nginx"
        server = subprocess.Popen([binary, "-e", folder / "errors", "-c", folder / "nginx.conf", "-p", folder])
        try:
            wait_for(int(str(names["plain"])), server)
            yield (
                folder,
                {
                    "https": f"https://127.0.0.1:{names['tls']}/data.bin",
                    "http": f"http://127.0.0.1:{names['plain']}/data.bin",
                    "hub": f"https://127.0.0.1:{names['tls']}/datasets/org/name/resolve/{COMMIT}/data.bin",
                },
            )
        finally:
            server.terminate()
            server.wait(30)


def free_port() -> int:
    """One of the loopback interface."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    """Returns when the server answers."""
    until = time.monotonic() + 30
    while time.monotonic() < until and server.poll() is None:
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit("nginx does not answer")


def total(part: int) -> int:
    """The bytes of a pass."""
    return min(TOTAL, 2048 * part)


def by_requests(url: str, part: int, offsets: list[int], ca: str) -> None:
    """A session for each thread."""
    import requests

    def some(mine: list[int]) -> None:
        with requests.Session() as session:
            for at in mine:
                with session.get(url, headers={"Range": f"bytes={at}-{at + part - 1}"}, verify=ca) as answer:
                    check(len(answer.content), part)

    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(some, [offsets[i::AT_ONCE] for i in range(AT_ONCE)]))


def by_aiohttp(url: str, part: int, offsets: list[int], ca: str) -> None:
    """A session for all tasks."""
    import ssl

    import aiohttp

    async def everything() -> None:
        trusted = ssl.create_default_context(cafile=ca)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusted)) as session:

            async def some(mine: list[int]) -> None:
                for at in mine:
                    async with session.get(url, headers={"Range": f"bytes={at}-{at + part - 1}"}) as answer:
                        check(len(await answer.read()), part)

            await asyncio.gather(*(some(offsets[i::AT_ONCE]) for i in range(AT_ONCE)))

    asyncio.run(everything())


def by_fsspec(url: str, part: int, offsets: list[int], _ca: str) -> None:
    """cat_ranges, as many at a time as the others have."""
    from fsspec.implementations.http import HTTPFileSystem

    fs = HTTPFileSystem()
    for i in range(0, len(offsets), AT_ONCE):
        some = offsets[i : i + AT_ONCE]
        for content in fs.cat_ranges([url] * len(some), some, [at + part for at in some], on_error="raise"):
            check(len(content), part)


def by_hub(url: str, _part: int, _offsets: list[int], _ca: str) -> None:
    """hf_hub_download, of whole files."""
    from huggingface_hub import hf_hub_download

    for _ in range(TOTAL // SIZE):
        with tempfile.TemporaryDirectory(dir="/dev/shm") as to:
            path = hf_hub_download("org/name", "data.bin", repo_type="dataset", revision=COMMIT, local_dir=to,
                                   endpoint=url.partition("/datasets/")[0])  # fmt: skip
            check(Path(path).stat().st_size, SIZE)


def check(got: int, want: int) -> None:
    """Fails if an answer is not whole."""
    if got != want:
        raise SystemExit(f"an answer has {got} bytes of {want}")


READERS: dict[str, Callable[[str, int, list[int], str], None]] = {
    "requests": by_requests, "aiohttp": by_aiohttp, "fsspec": by_fsspec, "hf_hub_download": by_hub,
}  # fmt: skip


def subject(system: str, url: str, part: int, ca: str, passes: int) -> None:
    """Reads as one of Python's clients, and prints what each pass took."""
    offsets = [i * part % SIZE for i in range(total(part) // part)]
    for i in range(1 + passes):
        cpu = cpu_seconds()
        READERS[system](url, part, offsets, ca)
        if i:
            print(json.dumps({"bytes": total(part), "cpu": cpu_seconds() - cpu}), flush=True)


def cpu_seconds() -> float:
    """What this process has taken so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def commands(
    server: str, part: int, url: str, folder: Path, peers: str, passes: int
) -> Iterator[tuple[str, list[Any]]]:
    """The clients of a server, and how each is run."""
    go = [
        peers,
        "download",
        "--size",
        SIZE,
        "--range",
        part,
        "--bytes",
        TOTAL,
        "--at-once",
        AT_ONCE,
        "--passes",
        passes,
    ]
    uri = f"hf://datasets/org/name@{COMMIT}/data.bin" if server == "hub" else url
    yield "penstock", [*go, "--storage-config", folder / "storage.yaml", "--storage", server, uri]
    yield "net/http", [*go, "--plain", "--ca-file", folder / "cert.pem", url]
    for system in PYTHON if server != "hub" else ["hf_hub_download"] if part == RANGES[-1] else []:
        yield (
            system,
            [sys.executable, "-m", "peers.downloads", "--subject", system, url, part, folder / "cert.pem", passes],
        )


def compare(server: str, part: int, url: str, folder: Path, peers: str, passes: int) -> None:
    """Runs each client, and prints its rate."""
    trust = {"SSL_CERT_FILE": f"{folder}/cert.pem", "REQUESTS_CA_BUNDLE": f"{folder}/cert.pem",
             "HF_HUB_DISABLE_PROGRESS_BARS": "1", "no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}  # fmt: skip
    for system, command in commands(server, part, url, folder, peers, passes):
        done = subprocess.run([str(one) for one in command], check=True, stdout=subprocess.PIPE, text=True,
                              env=os.environ | trust)  # fmt: skip
        rate = sorted(one["bytes"] / one["cpu"] / 1e6 for one in map(json.loads, done.stdout.splitlines()))
        print(f"{server:6} {part >> 10:5} KiB {system:16} {statistics.median(rate):8,.0f} MB per CPU second "
              f"({rate[0]:,.0f} to {rate[-1]:,.0f})", flush=True)  # fmt: skip


def main() -> None:
    """Compares, or is one of the clients."""
    if sys.argv[1:2] == ["--subject"]:
        system, url, length, ca, passes = sys.argv[2:]
        subject(system, url, int(length), ca, int(passes))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--peers", required=True, help="the Go program of bench/peers: go build -o PROGRAM ./bench/peers"
    )
    parser.add_argument("--passes", type=int, default=3, help="that are measured, behind one that is not")
    parser.add_argument("--server", choices=SERVERS, action="append", help="one of them (default: all)")
    given = parser.parse_args()
    with nginx() as (folder, urls):
        for server in given.server or SERVERS:
            for part in RANGES:
                compare(server, part, urls[server], folder, given.peers, given.passes)


if __name__ == "__main__":
    main()
