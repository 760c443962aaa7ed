"""An object store that is far away: folders below a root as S3's buckets, each answer some milliseconds late.

`python -m peers.formats.slow ROOT MILLISECONDS` prints its port, and serves until its standard input ends.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import urllib.parse
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from xml.sax.saxutils import escape

PAGE = 1000  # keys of an answer


class Handler(BaseHTTPRequestHandler):
    """Knows what reading needs: listing, HEAD, and GET with a range."""

    protocol_version = "HTTP/1.1"
    root: Path
    latency: float

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        time.sleep(self.latency)
        url = urllib.parse.urlsplit(self.path)
        path = self.root / urllib.parse.unquote(url.path).strip("/")
        if path.is_dir():
            self._list(path, dict(urllib.parse.parse_qsl(url.query)))
        elif path.is_file():
            self._object(path)
        else:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>", {})

    def _object(self, path: Path) -> None:
        found, status = path.stat(), 200
        begin, size = 0, found.st_size
        headers = {"ETag": f'"{found.st_mtime_ns:x}"', "Last-Modified": formatdate(found.st_mtime, usegmt=True)}
        if asked := self.headers.get("Range"):
            first, _, last = asked.removeprefix("bytes=").partition("-")
            begin, end = (int(first), int(last or size - 1)) if first else (max(0, size - int(last)), size - 1)
            status, headers["Content-Range"] = 206, f"bytes {begin}-{min(end, size - 1)}/{size}"
            size = min(end, size - 1) - begin + 1
        content = b""
        if self.command == "GET":
            with path.open("rb") as file:
                content = os.pread(file.fileno(), size, begin)
        self._answer(status, content, headers, size)

    def _list(self, bucket: Path, query: dict[str, str]) -> None:
        if "location" in query:
            self._answer(200, b"<LocationConstraint></LocationConstraint>", {})
            return
        after = query.get("continuation-token") or query.get("start-after", "")
        keys = sorted(p.name for p in bucket.iterdir() if p.name.startswith(query.get("prefix", "")) and p.name > after)
        page, more = keys[:PAGE], len(keys) > PAGE
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
        said = "".join(_entry(bucket / key) for key in page)
        self._answer(200, f"<ListBucketResult><Name>{escape(bucket.name)}</Name><KeyCount>{len(page)}</KeyCount>"
                     f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}{said}</ListBucketResult>".encode(),
                     {"Content-Type": "application/xml"})  # fmt: skip

    def _answer(self, status: int, content: bytes, headers: dict[str, str], size: int | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content) if size is None else size))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *_said: object) -> None:
        """Says nothing."""


class Server(ThreadingHTTPServer):
    """Takes clients that leave for granted."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def _entry(path: Path) -> str:
    found = path.stat()
    changed = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(found.st_mtime))
    return (f"<Contents><Key>{escape(path.name)}</Key><LastModified>{changed}</LastModified>"
            f"<ETag>&quot;{found.st_mtime_ns:x}&quot;</ETag><Size>{found.st_size}</Size></Contents>")  # fmt: skip


def main() -> None:
    """Serves."""
    Handler.root, Handler.latency = Path(sys.argv[1]), float(sys.argv[2]) / 1000
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
