"""How a session tells the log and its listener what happens in it. Any thread may call."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

from penstock import _signals
from penstock._session.config import Config
from penstock.monitor import Event

Value: TypeAlias = int | float | bool | str

_log = logging.getLogger("penstock")


def tell(
    config: Config,
    event: str,
    message: str,
    level: int = logging.INFO,
    metadata: Mapping[str, Value] = MappingProxyType({}),
) -> None:
    """Tells of something that happened; event "" is for the log alone."""
    _log.log(level, "session %s, rank %d: %s", config.session, config.rank, message)
    if not event:
        return
    about = {"session": config.session, "rank": config.rank, **metadata}
    try:
        config.on_event(Event(f"penstock.{event}", message, metadata=about))
    except Exception as err:
        if _signals.raised(err):
            raise
        _log.exception("on_event failed; the session goes on")
