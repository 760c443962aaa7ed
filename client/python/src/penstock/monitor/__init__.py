"""Events and statistics of this package, for any sink: an interface after the torch.monitor RFC.

    from penstock import monitor
    monitor.register_event_handler(monitor.JSONLines("events.jsonl"))

The loader logs an Event for what happens seldom, such as a failover, and keeps Stats for what happens with every
batch, and of the process and its machine; a Stat logs its aggregates as one Event per window. What is added here costs
under 1% of a training loop's time, so that it is always on. Everything may be called from any thread.

Names differ from torch.monitor's where the RFC's say more: Event has a type, a message and metadata, where torch kept a
name and data; Percentile is not in torch. A handler that raises is unregistered, and that is logged once.
"""

from __future__ import annotations

from penstock.monitor._event import (
    Event,
    EventHandlerHandle,
    log_event,
    register_event_handler,
    unregister_event_handler,
)
from penstock.monitor._handlers import JSONLines, TensorBoard, TorchMonitor
from penstock.monitor._stat import P50, P90, P95, P99, STAT_EVENT, Aggregation, Percentile, Stat
from penstock.monitor._system import SystemStats

__all__ = [
    "P50",
    "P90",
    "P95",
    "P99",
    "STAT_EVENT",
    "Aggregation",
    "Event",
    "EventHandlerHandle",
    "JSONLines",
    "Percentile",
    "Stat",
    "SystemStats",
    "TensorBoard",
    "TorchMonitor",
    "log_event",
    "register_event_handler",
    "unregister_event_handler",
]
