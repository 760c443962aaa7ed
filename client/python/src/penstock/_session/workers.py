"""Connections to workers, and what their errors mean: the data path's wire, over pyarrow's Flight.

Any thread may use the pool; a client serves all streams to its worker.
"""

from __future__ import annotations

import re
import threading
from typing import Any

import pyarrow as pa
from pyarrow import flight

from penstock._session.blocks import pool
from penstock._session.config import Security
from penstock._session.links import Links
from penstock._session.masters import CHANNEL_OPTIONS
from penstock._session.stream import Connection, Granted

# How pyarrow words gRPC's codes.
_PHRASES = {
    "cancelled call": "CANCELLED",
    "invalid argument": "INVALID_ARGUMENT",
    "timeout": "DEADLINE_EXCEEDED",
    "not found": "NOT_FOUND",
    "already exists": "ALREADY_EXISTS",
    "unauthorized": "PERMISSION_DENIED",
    "resource exhausted": "RESOURCE_EXHAUSTED",
    "precondition failed": "FAILED_PRECONDITION",
    "aborted": "ABORTED",
    "out-of-range": "OUT_OF_RANGE",
    "unimplemented": "UNIMPLEMENTED",
    "internal": "INTERNAL",
    "unavailable": "UNAVAILABLE",
    "data loss": "DATA_LOSS",
    "unauthenticated": "UNAUTHENTICATED",
}
_WORDING = re.compile(
    r"(?:\w+: )?(?:Flight|gRPC) (?:returned |RPC )?(?P<phrase>[a-z -]+?)(?: error)?,? with message: (?P<words>.*)",
    re.DOTALL,
)
_FRAME = re.compile(r"\. (?:gRPC client debug context|Client context|Detail): .*", re.DOTALL)
# Errors that will not go away by asking the same worker again. PERMISSION_DENIED does: a worker that has just started
# learns the master's keys, and the next Sync brings a ticket that has not expired.
_REFUSALS = {"DATA_LOSS", "FAILED_PRECONDITION"}  # of the data
_REFUSALS |= {"INVALID_ARGUMENT", "UNAUTHENTICATED", "UNIMPLEMENTED", "OUT_OF_RANGE", "ABORTED"}  # of this worker


# How a worker begins its words when it lacks something that a program needs. Whatever else is UNIMPLEMENTED, a worker
# did not say: another server did, or a proxy.
_LACKS = "this worker cannot run the program"


class WorkerError(Exception):
    """A worker's words, without the frames that gRPC and Flight put around them."""

    def __init__(self, name: str, address: str, words: str, code: str) -> None:
        self.said = f"worker {name} at {address}: {words}"
        super().__init__(f"{self.said} ({code})")
        self.name, self.address, self.code = name, address, code
        self.stranger = code == "UNIMPLEMENTED" and _LACKS not in words  # what answered is no worker

    @property
    def refusal(self) -> bool:
        """Whether the worker will say the same again."""
        return self.code in _REFUSALS


def read_error(e: BaseException) -> tuple[str, str]:
    """The code and the words of an error that pyarrow raised."""
    text = e.args[0] if e.args and isinstance(e.args[0], str) else str(e)
    said = _WORDING.match(text)
    if said is None:
        return "UNIMPLEMENTED" if isinstance(e, pa.ArrowNotImplementedError) else "UNKNOWN", _FRAME.sub("", text)
    return _PHRASES.get(said["phrase"], "UNKNOWN"), _FRAME.sub("", said["words"])


class Workers:
    """One connection for each address."""

    def __init__(self, security: Security, budget: int) -> None:
        self._security = security
        self._lock = threading.Lock()
        self._connections: dict[str, Connection] = {}
        self._blocks = pool("records", max(_LEAST_KEPT, budget // _BLOCK))

    def connection(self, address: str) -> Connection:
        """The connection to a worker; it connects with the first call."""
        with self._lock:
            connection = self._connections.get(address)
            if connection is None:
                links = Links(address, self._security)
                connection = self._connections[address] = Connection(self._dial(address), links, self._blocks)
            return connection

    def _dial(self, address: str) -> flight.FlightClient:
        s = self._security.newest()
        s.check(address)
        options: dict[str, Any] = {"generic_options": list(CHANNEL_OPTIONS), "middleware": [Granted()]}
        if s.encrypted:
            if s.server_name is not None:
                options["override_hostname"] = s.server_name
            options |= {"tls_root_certs": s.ca, "cert_chain": s.cert, "private_key": s.key}
        if address.startswith("unix:"):
            location = f"grpc+unix://{address.removeprefix('unix:')}"
        else:
            location = f"grpc+{'tls' if s.encrypted else 'tcp'}://{address}"
        return flight.FlightClient(location, **options)

    def forget(self, address: str, connection: Connection) -> None:
        """Has the next stream to an address connect anew, without the backoff of a connection that failed."""
        with self._lock:
            if self._connections.get(address) is not connection:
                return
            del self._connections[address]
        connection.links.close()

    def keep(self, addresses: set[str]) -> None:
        """Forgets connections to all other addresses; streams that use one go on."""
        with self._lock:
            left = [c for a, c in self._connections.items() if a not in addresses]
            self._connections = {a: c for a, c in self._connections.items() if a in addresses}
        for connection in left:
            connection.links.close()

    def close(self) -> None:
        """Forgets all connections. Each ends with its last stream."""
        self.keep(set())


ERRORS = (flight.FlightError, pa.ArrowException, OSError)
# Free blocks for what comes: all that a training batch is joined of come back at once. There are as many as the session
# had at most, and no more than it may have received and not in a batch.
_LEAST_KEPT, _BLOCK = 8, 1 << 20
