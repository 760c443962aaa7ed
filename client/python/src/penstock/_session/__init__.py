"""The thin client: a session on the master, whose batches another process makes, in memory that both have.

The Go client does all that takes time or thought (docs/internals/feed.md): it opens and joins the session, too. Here it
is asked for batches, and told of. feeder is the process and its sockets, exchange what is asked and answered, session
the face. Above it stands penstock.loader. See session.py for who may call what from where.
"""

from __future__ import annotations

from penstock._session.config import Config, Security
from penstock._session.rows import After, Rows
from penstock._session.session import Session
from penstock._session.state import Info, State
from penstock._session.stats import Cause, SessionStats

__all__ = ["After", "Cause", "Config", "Info", "Rows", "Security", "Session", "SessionStats", "State"]
