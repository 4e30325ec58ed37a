"""Jobs that start at a time, and by a cron schedule, beside a schedd's in the same pool."""

import datetime
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fetchwork.pool import PersonalPool
from fetchwork.pool.condorroot import CondorRoot
from tests.condor.sides import CONFIG_OF_HALVES, HOST, Sides

PROGRAM = Path(__file__).parent / "timing.py"
# none of them may be due in the next minutes, because the two sides compute them at different moments
FAR = (datetime.datetime.now().astimezone() + datetime.timedelta(hours=12)).hour
SCHEDULES = [
    {"hour": f"{FAR}"},
    {"minute": "7", "hour": f"{FAR}"},
    {"minute": "*/20", "hour": f"{FAR}"},
    {"minute": "9-40/7", "hour": f"{FAR}"},
    {"minute": "50-70", "hour": f"{FAR}"},
    {"minute": "75", "hour": f"{FAR}"},
    {"minute": " 5, 3 ", "hour": f"{FAR},{FAR}"},
    {"minute": "0", "hour": f"{FAR}", "day_of_month": "31"},
    {"minute": "0", "hour": f"{FAR}", "day_of_month": "29", "month": "2"},
    {"minute": "0", "hour": f"{FAR}", "day_of_month": "30,31", "month": "4-6"},
    {"minute": "0", "hour": f"{FAR}", "month": "*/5"},
    {"minute": "0", "hour": f"{FAR}", "day_of_week": "*"},
    {"minute": "0", "hour": f"{FAR}", "day_of_month": "28", "day_of_week": "3"},
    {"minute": "0", "hour": f"{FAR}", "day_of_month": "1-31", "day_of_week": "0-7"},
]
#: in a schedule with only these fields, HTCondor takes the last day of a month too, on the way to the next
WEEKDAYS = [
    {"minute": "0", "hour": f"{FAR}", "day_of_week": days} for days in ("0", "7", "1-5", "2,4", "*/3")
]


@pytest.fixture(scope="module")
def sides(root: CondorRoot, make_pool: Callable[..., PersonalPool]) -> Sides:
    pool = make_pool(slots=8, config=CONFIG_OF_HALVES, host=HOST)
    return Sides(pool, PROGRAM)


def test_schedule_gives_the_times_of_a_schedd(sides: Sides) -> None:
    theirs, ours = sides.ask("schedules", [*SCHEDULES, *WEEKDAYS])
    number = len(SCHEDULES)
    assert ours[:number] == theirs[:number]
    month = time.localtime().tm_mon
    same = [
        at for at in zip(theirs[number:], ours[number:], strict=True) if time.localtime(at[1]).tm_mon == month
    ]
    assert [at[1] for at in same] == [at[0] for at in same]


def test_job_starts_at_its_time_and_one_that_waits_is_removed_before(
    sides: Sides, request: pytest.FixtureRequest
) -> None:
    # a schedule of every minute may wait for up to two
    jobs = {name: job for name, job in JOBS.items() if name != "cron" or request.config.getoption("--all")}
    paths = [{f"/tmp/{side}-{name}": what for name, what in jobs.items()} for side in ("theirs", "ours")]
    for asked in sides.ask_each("starts", *paths):
        for path, (at,) in asked.items():
            file = sides.pool.directory / path.lstrip("/")
            if "removed" in path:
                # the job had a slot, and has left the queue long before its time
                assert not file.exists()
                continue
            began = float(file.read_text())
            # a schedule of every minute means the next full minute
            earliest = at if "cron" not in path else (at - JOBS["cron"][0]) // 60 * 60 + 60
            assert began >= earliest, (path, at)


#: seconds ahead, and the commands that ask for the time; "AT" is the time. Each has a slot of its own
JOBS = {
    "time": (15, "deferral_time = AT\ndeferral_prep_time = 15\ndeferral_window = 200"),
    "expression": (20, "deferral_time = AT + 0\ndeferral_prep_time = 20\ndeferral_window = 200"),
    "cron": (60, "cron_minute = *\ncron_window = 200\ncron_prep_time = 60"),
    "removed": (3600, "deferral_time = AT\ndeferral_prep_time = 4000"),
}
