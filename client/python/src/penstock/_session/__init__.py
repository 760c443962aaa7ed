"""The thin client: a session on the master, whose batches another process makes, in memory that both have.

The Go client does all that takes time or thought (client/feed/README.md); here a session is opened and joined, asked
for batches, and told of. joining and masters are the control path's wire, feeder is the process and its sockets,
session is the face. Above it stands penstock.loader. See session.py for who may call what from where.
"""

from __future__ import annotations

from penstock._session.config import Config, Security
from penstock._session.session import After, Rows, Session, SessionStats

__all__ = ["After", "Config", "Rows", "Security", "Session", "SessionStats"]
