from __future__ import annotations

from penstock._session.pace import LEAST, STEPS, WARM_UP, Pace


def told(pace: Pace) -> tuple[float, float, int]:
    message = pace.to_proto(1.5)
    assert message.buffered == 1.5
    return message.step_ns / 1e9, message.rows, message.steps


def test_pace() -> None:
    pace = Pace(client=2.0)
    for _ in range(WARM_UP):
        pace.step(3600, 1)  # compiles
    for _ in range(LEAST):
        assert told(pace) == (0, 0, 0)
        pace.step(1, 10)
    assert told(pace) == (1, 10, LEAST)
    pace.step(3600, 10)  # evaluates
    assert told(pace) == (1, 10, LEAST + 1)
    for _ in range(100):
        pace.step(1, 10)
    for _ in range(STEPS // 2 + 1):  # the loop became slower
        pace.step(3, 10)
    assert told(pace) == (3, 10, STEPS)
    for _ in range(STEPS):
        pace.step(0, 20)
    assert told(pace) == (0, 20, STEPS)
    assert pace.to_proto(0).client_ns == 2_000_000_000
