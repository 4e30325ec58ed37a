"""Pictures of the pages, at 1400 and 400 pixels, light and dark, to look at.

    make screenshots                  # into screenshots/
    make screenshots ARGS=DIRECTORY

The pool is a database with 20 000 jobs of three hosts: 2 000 in the queue, and 18 000 of a day's history with
failures of five sorts: an exit code, a signal, evictions, runs that could not start, and removed jobs.
"""

import os
import shutil
import sys
from pathlib import Path
from typing import Literal

import psycopg
from playwright.sync_api import sync_playwright

from tests.benchmarks import frame
from tests.benchmarks.bench_page import TOKEN, Service, count_runs
from tests.benchmarks.bench_tracking import fill

PAGES = {
    "overview": "/?range=day",
    "jobs": "/jobs",
    "held": "/jobs?state=held",
    "job-idle": "/jobs/1.7",
    "job-ended": "/jobs/12.7",
    "cluster": "/clusters/12",
    "history": "/history",
    "slots": "/slots",
    "host": "/hosts/ep1",
    "actions": "/actions",
}
WIDTHS = (1400, 400)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")

# ruff: noqa: E501 - statements
VARIED = """
UPDATE fetchwork.job_history SET exit_code = 1 WHERE proc_id % 37 = 7;
UPDATE fetchwork.run_history SET report = '{"ExitCode": 1}' WHERE proc_id % 37 = 7;
UPDATE fetchwork.job_history SET exit_code = NULL, exit_by_signal = true, exit_signal = 9 WHERE proc_id % 61 = 3;
UPDATE fetchwork.run_history SET report = '{"ExitSignal": 9}' WHERE proc_id % 61 = 3;
UPDATE fetchwork.run_history SET outcome = 'evicted', reason = 'slot drains', report = NULL WHERE proc_id % 41 = 5;
UPDATE fetchwork.run_history SET outcome = 'could_not_start', reason = 'no such file: data.csv', report = NULL,
    started_at = NULL WHERE proc_id % 53 = 11;
UPDATE fetchwork.job_history SET job_status = 3, exit_code = NULL, last_reason = 'not needed' WHERE proc_id % 97 = 2;
UPDATE fetchwork.job_history SET wall_s = 20 + (proc_id * 7919) % 600 + CASE WHEN proc_id % 29 = 0 THEN 1500 ELSE 0 END,
    user_cpu_s = 15 + proc_id % 300, ad = ad || '{"RequestMemory": 512}',
    facts = facts || jsonb_build_object('MemoryUsage', 80 + proc_id % 400);
UPDATE fetchwork.host SET agent_version = '0.1', seen_at = now(), lease_until = now() + interval '1 hour';
UPDATE fetchwork.run_history SET host_id = 1 + run_id % 3, slot = 'slot' || run_id % 16 || '@ep' || 1 + run_id % 3;
UPDATE fetchwork.run SET host_id = 1 + run_id % 3, slot = 'slot' || run_id % 16 || '@ep' || 1 + run_id % 3,
    claimed_at = now() - interval '4 minutes', started_at = now() - interval '3 minutes';
DELETE FROM fetchwork.host WHERE host_id > 3;
UPDATE fetchwork.host SET lease_until = now() - interval '10 minutes', seen_at = now() - interval '11 minutes'
    WHERE host_id = 3;
INSERT INTO fetchwork.slot (host_id, name, state, activity, cpus, memory_mib, gpus, last_fetch_at, last_answer)
SELECT h.host_id, 'slot' || n || '@' || h.name, CASE WHEN n = 15 THEN 'Drained' ELSE 'Unclaimed' END, 'Idle',
    1 + n % 4, 2048, CASE WHEN n = 3 THEN 1 END, now() - make_interval(secs => 7 * n), 'no work'
FROM fetchwork.host AS h CROSS JOIN generate_series(0, 19) AS n
"""


def pool(conninfo: str) -> None:
    """Fill the database."""
    fill(conninfo, 2000, 18_000)
    with psycopg.connect(conninfo, autocommit=True) as connection:
        for statement in VARIED.split(";\n"):
            connection.execute(statement)
        for action in ("hold", "release"):
            connection.execute(f"SELECT fetchwork.{action}(ARRAY['1.7', '1.8'], 'to look at it')")
        connection.execute("""SELECT fetchwork.set_queue('default', '{"max_running": 500}')""")
        connection.execute("SELECT fetchwork.sequence_events()")
    count_runs(conninfo)


def pictures(address: str, target: Path) -> None:
    """Save a picture of each page at each width and in each scheme."""
    with sync_playwright() as started:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        found = shutil.which("chromium") or shutil.which("chromium-browser")
        chromium = started.chromium.launch(executable_path=found, args=arguments)
        for scheme in SCHEMES:
            for width in WIDTHS:
                context = chromium.new_context(
                    base_url=address, color_scheme=scheme, viewport={"width": width, "height": 900}
                )
                tab = context.new_page()
                tab.goto(f"/?token={TOKEN}")
                for name, path in PAGES.items():
                    tab.goto(path)
                    # the parts that come later
                    while tab.locator("[data-load] > p:only-child > a").count():
                        tab.wait_for_timeout(100)
                    tab.screenshot(path=target / f"{name}-{width}-{scheme}.png", full_page=True)
                    if tab.evaluate("document.documentElement.scrollWidth") > width:
                        print(f"{path} is wider than {width}", file=sys.stderr)
                context.close()
        chromium.close()


def main() -> None:
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "screenshots")
    target.mkdir(parents=True, exist_ok=True)
    with frame.server() as (server, _):
        conninfo = frame.new_database(server)
        pool(conninfo)
        service = Service(conninfo)
        try:
            pictures(f"http://127.0.0.1:{service.port}", target)
        finally:
            service.stop()
    print(f"{len(list(target.glob('*.png')))} pictures in {target}")


if __name__ == "__main__":
    main()
