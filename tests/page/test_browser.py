"""The pages in a real Chromium: a person's view and clicks, live updates, and accessibility."""

import os
import shutil
import subprocess
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import uvicorn

from fetchwork.classad.bindings import JobAction
from fetchwork.page.application import application
from fetchwork.page.signin import SignIn
from fetchwork.pool.cache import cached
from fetchwork.pool.ports import free_port
from fetchwork.queue import Queue
from tests.page import hasty
from tests.page.conftest import TOKEN
from tests.support.direct_queue import DirectQueue
from tests.support.waiting import PATIENCE_S, until

playwright = pytest.importorskip(
    "playwright.sync_api", reason="no playwright: pip install 'fetchwork[browser]'", exc_type=ImportError
)

pytestmark = [pytest.mark.all, pytest.mark.slow]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PATHS = (
    "/", "/jobs", "/history", "/slots", "/queues", "/submitters", "/charts", "/hour", "/held",
    "/jobs/1.0", "/jobs/1.1", "/jobs/1.1/output", "/jobs/1.2", "/jobs/9.9", "/hosts/h1", "/hosts/h1/hour",
    "/clusters/1", "/batches?owner=alice&name=batch-alice", "/actions", "/find?text=nothing",
    "/jobs?sort=-Prio&column=Job&column=Prio&column=JobUniverse", "/jobs/act?action=hold&job=1.1",
    "/queues/default?change=pause", "/invitations",
)  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no chromium: tests/support/install-browser installs it on Debian")
    with playwright.sync_playwright() as started:
        # root has no sandbox
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield chromium
        chromium.close()


@pytest.fixture
def address(conninfo: str) -> Iterator[str]:
    """A service that listens; its address."""
    port = free_port()
    app = application(conninfo, SignIn(token=TOKEN, may_write=True))
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run)
    thread.start()
    until(lambda: server.started)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


@pytest.fixture
def tab(browser: Any, address: str) -> Iterator[Any]:
    """A signed-in tab; an error of its script or its pages fails the test."""
    context = browser.new_context(base_url=address)
    tab = context.new_page()
    tab.set_default_timeout(1000 * PATIENCE_S)
    complaints: list[str] = []
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on(
        "console",
        lambda line: (
            complaints.append(line.text) if line.type == "error" and "404" not in line.text else None
        ),
    )
    tab.goto(f"/?token={TOKEN}")
    yield tab
    context.close()
    assert complaints == []


def submit(queue: Queue, count: int, owner: str = "alice") -> int:
    return queue.submit("executable = /bin/true\n", count=count, owner=owner).cluster()


def test_the_link_signs_in_and_leaves_no_token_in_the_address(tab: Any) -> None:
    assert TOKEN not in tab.url
    assert tab.title() == "Overview · fetchwork"


def test_a_page_follows_what_happens(tab: Any, queue: Queue) -> None:
    tab.goto("/jobs")
    tab.get_by_text("No job is in the queue.").wait_for()
    # the stream is open, and the page has what came before it
    tab.get_by_text("up to date").wait_for()
    # no agent runs here; the administrator's reader puts events into the stream
    cluster = submit(queue, 2)
    assert len(list(queue.events(stop_after=0))) == 2
    tab.get_by_role("link", name=f"{cluster}.1").wait_for()
    queue.act(JobAction.Hold, f"{cluster}.1")
    assert len(list(queue.events(stop_after=0))) == 3
    tab.get_by_text("Held", exact=True).wait_for()


def test_a_filter_an_action_and_its_question(tab: Any, queue: Queue) -> None:
    submit(queue, 2)
    submit(queue, 3, "bob")
    tab.goto("/jobs")
    tab.get_by_role("textbox", name="Owner").fill("bob")
    tab.get_by_role("button", name="Show").click()
    tab.wait_for_url("**/jobs?owner=bob*")
    assert tab.locator("tbody tr").count() == 3
    tab.get_by_label("all that the filter selects").check()
    tab.get_by_role("button", name="Hold").click()
    tab.get_by_text("Hold 3 jobs?").wait_for()
    tab.get_by_label("Reason").fill("for the test")
    tab.get_by_role("button", name="Hold").click()
    tab.get_by_text("Done: 3 jobs.").wait_for()
    assert {ad["HoldReason"] for ad in queue.query("JobStatus == 5")} == {"for the test"}
    assert len(queue.query("JobStatus == 1")) == 2


def test_a_long_search_shows_what_it_finds_as_it_goes(
    tab: Any, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fetchwork.page.questions.page", hasty.page)
    wanted = []
    for _ in range(3):
        submit(queue, 30)
        wanted.append(f"{submit(queue, 1, 'bob')}.0")
    tab.goto("/jobs?constraint=" + quote('regexp("^b.b$", Owner)'))
    for job in wanted:
        tab.get_by_role("link", name=job, exact=True).wait_for()
    # the search is complete
    tab.get_by_text("Looked at").wait_for(state="detached")
    assert tab.locator("tbody tr").count() == 3


def test_a_long_search_is_stopped_and_goes_on(
    tab: Any, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fetchwork.page.questions.page", hasty.page)
    submit(queue, 500)
    last = f"{submit(queue, 1, 'bob')}.0"
    tab.goto("/jobs?constraint=" + quote('regexp("^b.b$", Owner)'))
    # a click that does not wait: these pieces are so small that the button is soon replaced
    tab.get_by_role("button", name="Stop").dispatch_event("pointerdown")
    said = tab.get_by_text("Looked at").text_content()
    assert "of about" in said
    assert tab.get_by_role("link", name=last, exact=True).count() == 0
    # the link leads on, and the rest loads by itself
    tab.get_by_role("link", name="Go on").click()
    tab.get_by_role("link", name=last, exact=True).wait_for()


def test_slow_parts_come_by_themselves(tab: Any, busy: DirectQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    # those of the page that signed in, before there was a job, are shown for a while
    monkeypatch.setattr("fetchwork.page.pages.CHARTS_S", 0.0)
    tab.goto("/")
    tab.locator("svg.chart rect").first.wait_for()
    tab.goto("/jobs/1.2")
    tab.locator("[data-load] li").first.wait_for()


@pytest.mark.parametrize("width", [1400, 400])
def test_a_chart_s_values_are_read_by_pointer_and_keys(
    tab: Any, busy: DirectQueue, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fetchwork.page.pages.CHARTS_S", 0.0)
    tab.set_viewport_size({"width": width, "height": 900})
    tab.goto("/?range=day")
    chart = tab.get_by_role("slider", name="Running jobs")
    chart.focus()
    tab.keyboard.press("End")
    playwright.expect(tab.locator("[data-readout]")).to_contain_text("Running: 2")
    tab.keyboard.press("Home")
    playwright.expect(tab.locator("[data-readout]")).to_contain_text("Running: 0")
    box = chart.bounding_box()
    chart.hover(position={"x": box["width"] - 1, "y": 10})
    playwright.expect(tab.locator("[data-readout]")).to_contain_text("Running: 2")
    # the page itself is not wider than the screen
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    tab.get_by_role("link", name="6 hours").click()
    tab.locator('.ranges [aria-current="true"]', has_text="6 hours").wait_for()


def test_output_of_a_running_job_is_followed_while_somebody_looks(tab: Any, busy: DirectQueue) -> None:
    tab.goto("/jobs/1.1")
    watched = "SELECT run_id, token FROM fetchwork.output_watch"
    until(lambda: busy.rows(watched) != [])
    ((run_id, token),) = busy.rows(watched)
    shipped = {"run_id": run_id, "token": token, "stderr_at": None, "stderr": None}
    busy.call("ship_output", **shipped, stdout_at=0, stdout=b"<one>\n")
    stdout = tab.get_by_label("stdout")
    playwright.expect(stdout).to_have_text("<one>\n")
    busy.call("ship_output", **shipped, stdout_at=9, stdout=b"two\n")
    playwright.expect(stdout).to_have_text("<one>\n[3 bytes left out]\ntwo\n")
    playwright.expect(tab.locator("[data-said]")).to_have_text("live")
    busy.call("ship_output", **{**shipped, "stdout_at": None, "stdout": None}, ended=True)
    tab.get_by_text("ended", exact=True).wait_for()


def test_a_queue_is_paused_by_its_button(tab: Any, queue: Queue) -> None:
    tab.goto("/queues")
    tab.get_by_role("button", name="Pause default").click()
    tab.get_by_text("Pause default?").wait_for()
    assert [ad["Paused"] for ad in queue.queues()] == [False]
    tab.get_by_role("button", name="Pause").click()
    tab.get_by_role("button", name="Resume default").wait_for()
    assert [ad["Paused"] for ad in queue.queues()] == [True]


@pytest.mark.parametrize("width", [1400, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_table_is_sorted_and_its_columns_are_chosen_by_keyboard(
    browser: Any, address: str, queue: Queue, width: int, scheme: str
) -> None:
    first, second = submit(queue, 2), submit(queue, 1, "bob")
    context = browser.new_context(
        base_url=address, color_scheme=scheme, viewport={"width": width, "height": 900}
    )
    tab = context.new_page()
    tab.set_default_timeout(1000 * PATIENCE_S)
    tab.goto(f"/?token={TOKEN}")
    tab.goto("/jobs")
    for direction, job in (("ascending", f"{first}.0"), ("descending", f"{second}.0")):
        tab.get_by_role("link", name="Owner", exact=True).focus()
        tab.keyboard.press("Enter")
        tab.locator(f'th[aria-sort="{direction}"]').wait_for()
        assert tab.locator("tbody tr td a").first.text_content() == job
    tab.get_by_text("Columns", exact=True).focus()
    tab.keyboard.press("Enter")
    tab.get_by_label("Batch", exact=True).focus()
    tab.keyboard.press("Space")
    tab.get_by_label("Other attributes").focus()
    tab.keyboard.type("NumJobStarts")
    tab.keyboard.press("Enter")
    tab.get_by_role("columnheader", name="NumJobStarts").wait_for()
    # the order stays, and so does a page that is refreshed
    assert tab.locator('th[aria-sort="descending"]').text_content().startswith("Owner")
    third = submit(queue, 1, "carol")
    list(queue.events(stop_after=0))
    tab.get_by_role("link", name=f"{third}.0").wait_for()
    assert tab.locator("tbody tr td a").first.text_content() == f"{third}.0"
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    context.close()


def test_everything_is_reached_by_the_keyboard(tab: Any, busy: DirectQueue) -> None:
    tab.goto("/jobs")
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "Skip to the content"
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.activeElement.id") == "main"
    seen = set()
    for _ in range(60):
        tab.keyboard.press("Tab")
        seen.add(
            tab.evaluate("document.activeElement.name || document.activeElement.getAttribute('href') || '-'")
        )
    assert {"owner", "state", "constraint", "action", "every", "job", "/jobs/1.1"} <= seen


def test_pages_work_without_a_script(browser: Any, address: str, busy: DirectQueue) -> None:
    context = browser.new_context(base_url=address, java_script_enabled=False)
    tab = context.new_page()
    tab.goto(f"/?token={TOKEN}")
    tab.get_by_role("link", name="Jobs", exact=True).click()
    tab.get_by_role("link", name="1.2").click()
    tab.get_by_role("link", name="Look into it").click()
    assert "Why job 1.2 does not run" in tab.content()
    context.close()


@pytest.fixture(scope="module")
def axe() -> str:
    """axe-core, which finds barriers to accessibility."""

    def unpack(directory: Path) -> None:
        subprocess.run(["npm", "pack", "--silent", "axe-core"], cwd=directory, check=True, timeout=120)
        (archive,) = directory.glob("*.tgz")
        with tarfile.open(archive) as package:
            source = package.extractfile("package/axe.min.js")
            assert source is not None
            (directory / "axe.min.js").write_bytes(source.read())
        archive.unlink()

    if not shutil.which("npm"):
        pytest.skip("no npm, which brings axe-core")
    try:
        return (cached("axe-core", unpack) / "axe.min.js").read_text(encoding="utf-8")
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"no axe-core: {error}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nobody_is_shut_out(browser: Any, address: str, axe: str, scheme: str, busy: DirectQueue) -> None:
    context = browser.new_context(base_url=address, color_scheme=scheme, bypass_csp=True)
    tab = context.new_page()
    tab.goto(f"/?token={TOKEN}")
    for path in PATHS:
        tab.goto(path)
        time.sleep(0.3)
        tab.evaluate(axe)
        found = tab.evaluate("axe.run()")
        problems = [(one["id"], [node["html"] for node in one["nodes"]][:3]) for one in found["violations"]]
        assert problems == [], path
    context.close()
