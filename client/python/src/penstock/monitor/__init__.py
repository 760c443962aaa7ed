"""Events and statistics of this package, for any sink: an interface after the torch.monitor RFC.

    penstock.monitor.register_event_handler(penstock.monitor.JSONLines("events.jsonl"))

The loader logs an Event for what happens seldom (a failover, a lapsed lease) and keeps a Stat for what happens with
every batch; a Stat logs its aggregates as one Event per window. Everything here may be called from any thread.
"""

from __future__ import annotations

from penstock.monitor._event import (
    Event,
    EventHandlerHandle,
    log_event,
    register_event_handler,
    unregister_event_handler,
)

__all__ = [
    "Event",
    "EventHandlerHandle",
    "log_event",
    "register_event_handler",
    "unregister_event_handler",
]
