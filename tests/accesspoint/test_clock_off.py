"""An access point whose clock is a day off, or is set while it works: times and order are the database's."""

import time
from pathlib import Path

import pytest

from tests.accesspoint.event_logs import JOBS, entries
from tests.accesspoint.point import AccessPoint, as_account
from tests.support.clocks import DAY_S, Clock, needs_library
from tests.support.waiting import until

#: longer than the test, and much shorter than a day
SOON_S = 600


@needs_library
@pytest.mark.executed
@pytest.mark.parametrize("days", [1, -1])
def test_an_access_point_s_clock_that_is_a_day_off_or_set_changes_no_answer_and_no_log(
    point: AccessPoint, directory: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    point.stop()
    clock.set(days * DAY_S)
    with monkeypatch.context() as under:
        for name, value in clock.environment.items():
            under.setenv(name, value)
        point.start()
    for number, ahead_s in enumerate((days * DAY_S, 0, -days * DAY_S)):
        clock.set(ahead_s)
        log = directory / f"{number}.log"
        cluster = point.submit("nobody", JOBS.format(log, 2))["cluster"]
        point.slots.finish(point.slots.started())
        for action in ("Hold", "Release", "Remove"):
            spec = [f"{cluster}.1"]
            as_account("nobody", lambda a=action, s=spec: point.ask("change", action=a, spec=s))  # type: ignore[misc]
        until(lambda path=log: len(entries(path)) == 7, "the entries of each change")  # type: ignore[misc]
        heads = entries(log)
        job = f"({cluster:03}.000.000)"
        assert [head[:3] for head in heads if job in head] == ["000", "001", "005"]
        assert [head[:3] for head in heads if job not in head] == ["000", "012", "013", "009"]
        days_of_entries = {line.split()[2] for line in log.read_text().splitlines() if line.startswith("0")}
        now = time.time()
        assert days_of_entries <= {
            time.strftime("%Y-%m-%d", time.localtime(at)) for at in (now, now - SOON_S)
        }
        assert 0 <= point.status()["uptime_s"] < SOON_S
    off = "SELECT max(abs(extract(epoch FROM now() - q_date))) FROM fetchwork.job_history"
    assert point.slots.value(off) < SOON_S
