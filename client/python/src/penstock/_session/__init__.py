"""The thin client: opens a session on the master, streams shards from workers, hands over batches.

It follows the same rules as the Go package `client`, file by file: position, ledger and piece are pure bookkeeping;
masters and workers are the two wires; control, streams and assemble are the threads; session is the face. Above it
stands penstock.loader. See session.py for who may call what from where.
"""

from __future__ import annotations

from penstock._session.config import Config, Security
from penstock._session.core import Rows
from penstock._session.ledger import Snapshot
from penstock._session.session import Session, SessionStats

__all__ = ["Config", "Rows", "Security", "Session", "SessionStats", "Snapshot"]
