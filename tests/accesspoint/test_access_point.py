"""Asking an access point: by socket, as different accounts of the machine."""

import functools
import os
import sys
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from fetchwork.client.link import Link
from fetchwork.errors import FetchworkError, SubmitError
from tests.accesspoint.point import AccessPoint, RefusedError, as_account, request


def test_an_account_submits_and_sees_its_own_jobs(point: AccessPoint) -> None:
    assert point.submit("nobody", "executable = /bin/true\nqueue 3\n")["count"] == 3
    owners = ["Owner", "ClusterId"]
    mine = as_account("nobody", lambda: point.items("jobs", projection=owners))
    assert [ad["Owner"] for ad in mine] == ["nobody"] * 3
    assert as_account("daemon", lambda: point.items("jobs", projection=owners)) == []


def test_an_account_changes_its_own_jobs_alone(point: AccessPoint) -> None:
    cluster = point.submit("nobody", "executable = /bin/true\nqueue\n")["cluster"]
    for op, arguments in (
        ("change", {"action": "Remove", "spec": f"{cluster}.0"}),
        ("change", {"action": "Hold", "spec": "true"}),
        ("act", {"action": "Hold", "spec": [f"{cluster}.0"]}),
    ):
        answer = as_account("daemon", functools.partial(point.ask, op, **arguments))
        assert answer.get("changed", answer.get("TotalSuccess")) == 0
    with pytest.raises(RefusedError, match="NotFound"):
        as_account("daemon", lambda: point.ask("edit", spec=f"{cluster}.0", changes={"JobPrio": 5}))
    assert point.slots.value("SELECT jobstatus FROM fetchwork.jobs") == 1
    assert as_account("nobody", lambda: point.ask("edit", spec=f"{cluster}.0", changes={"JobPrio": 5})) == 1
    done = as_account("nobody", lambda: point.ask("change", action="Remove", spec=f"{cluster}.0"))
    assert done["changed"] == 1
    ended = as_account("nobody", lambda: point.items("view", name="history", projection=["ClusterId"]))
    assert [ad["ClusterId"] for ad in ended] == [cluster]


def test_root_sees_all_jobs_and_changes_them_as_their_owner_alone(point: AccessPoint) -> None:
    point.submit("nobody", "executable = /bin/true\nqueue\n")
    point.submit("daemon", "executable = /bin/true\nqueue\n")
    assert {ad["Owner"] for ad in point.items("jobs", projection=["Owner"])} == {"nobody", "daemon"}
    with pytest.raises(FetchworkError, match="root owns no jobs"):
        point.ask("change", action="Remove", spec="true")
    with pytest.raises(FetchworkError, match="root owns no jobs"):
        point.ask("submit", **request("executable = /bin/true\nqueue\n", key="b"))
    assert point.ask("change", action="Remove", spec="true", **{"as": "nobody"})["changed"] == 1
    assert [ad["Owner"] for ad in point.items("jobs", projection=["Owner"])] == ["daemon"]
    with pytest.raises(FetchworkError, match="is not served"):
        point.ask("totals", **{"as": "root"})


def test_nobody_but_root_acts_for_another(point: AccessPoint) -> None:
    for op, arguments in (("totals", {}), ("submit", request("executable = /bin/true\nqueue\n", key="a"))):
        with pytest.raises(RefusedError, match="'nobody' may not act as 'daemon'"):
            as_account("nobody", functools.partial(point.ask, op, **arguments, **{"as": "daemon"}))


def test_system_accounts_are_refused_by_setting(directory: Path, point_conninfo: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("an access point for everybody is root's")
    point = AccessPoint(directory, point_conninfo, "--min-uid", "1000").start()
    try:
        with pytest.raises(RefusedError, match=r"'daemon' \(uid 1\) is not served .* uid 1000 and above"):
            as_account("daemon", lambda: point.ask("totals"))
        assert as_account("nobody", lambda: point.ask("totals"))[0]["jobs"] == 0
    finally:
        assert point.stop() == 0


def test_an_ordinary_account_s_access_point_serves_it_alone(
    directory: Path, postgres: Any, conninfo: str, connection: psycopg.Connection
) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs several accounts")
    connection.execute("DROP ROLE IF EXISTS fw_of_nobody")
    connection.execute("CREATE ROLE fw_of_nobody LOGIN PASSWORD 'x' IN ROLE fetchwork_submitter")
    connection.execute("SELECT fetchwork.grant_owner('fw_of_nobody', 'nobody')")
    if not as_account("nobody", lambda: os.access(sys.executable, os.X_OK)):
        pytest.skip("this checkout can't be read by other accounts")
    mine = postgres.conninfo("kept", user="fw_of_nobody", password="x")
    point = AccessPoint(directory, mine, uid=65534).start()
    try:
        assert point.submit("nobody", "executable = /bin/true\nqueue\n")["count"] == 1
        with pytest.raises(RefusedError, match="serves 'nobody' alone"):
            as_account("daemon", lambda: point.ask("totals"))
        # root's request is accepted and runs as that account
        assert point.ask("totals")[0]["jobs"] == 1
    finally:
        assert point.stop() == 0
        connection.execute("DROP OWNED BY fw_of_nobody")
        connection.execute("DROP ROLE fw_of_nobody")


def test_a_description_is_read_with_the_rights_of_who_submits(point: AccessPoint, directory: Path) -> None:
    secret = directory / "secret"
    secret.write_text("a\nb\n")
    secret.chmod(0o600)
    told = directory / "told"
    with pytest.raises(RefusedError, match="SubmitError"):
        point.submit("nobody", f"executable = /bin/true\nqueue x from {secret}\n")
    # a program of a description runs with its submitter's ids and environment, not with the access point's
    program = f"/bin/sh -c 'id -un; id -G; env; ls -l /proc/self/fd' > {told}"
    items_file = directory / "run"
    items_file.write_text(f"#!/bin/sh\n{program}\necho one\n")
    items_file.chmod(0o755)
    point.submit(
        "nobody",
        f"executable = /bin/true\nqueue x from {items_file} |\n",
        env={"PATH": "/bin:/usr/bin", "MINE": "1"},
    )
    text = told.read_text()
    assert text.startswith("nobody\n65534\n"), text
    assert "MINE=1" in text and "FETCHWORK_DSN" not in text and "password" not in text
    assert "socket:" not in text


def test_a_description_has_the_directory_and_environment_of_who_submits(
    point: AccessPoint, directory: Path
) -> None:
    (directory / "items.txt").write_text("one\ntwo\n")
    point.submit(
        "nobody",
        "executable = /bin/true\ngetenv = MINE\narguments = $(x)\nqueue x from items.txt\n",
        cwd=str(directory),
        env={"MINE": "of-mine", "PATH": "/bin"},
    )
    rows = point.slots.rows(
        "SELECT ad ->> 'Iwd', ad ->> 'Arguments', ad ->> 'Args', ad ->> 'Environment' FROM fetchwork.jobs"
    )
    assert {row[0] for row in rows} == {str(directory)}
    assert {row[1] or row[2] for row in rows} == {"one", "two"}
    assert all("of-mine" in row[3] for row in rows)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cwd": "relative"}, "no proper 'cwd'"),
        ({"env": {"A": 1}}, "no proper 'env'"),
        ({"key": 7}, "no proper 'key'"),
        ({"key": ""}, "key of a submission is empty"),
        ({"description": None}, "no proper 'description'"),
        ({"description": "nonsense"}, "nonsense"),
        ({"description": "executable = /bin/true\nqueue 0\n"}, "makes no jobs"),
        ({"cwd": "/no/such/place"}, "cannot use the working directory"),
        ({"description": "executable = /bin/true\nlog = /proc/x/log\nqueue\n"}, "cannot open the event log"),
    ],
)
def test_what_can_not_be_submitted_is_refused_and_leaves_nothing(
    point: AccessPoint, change: dict[str, Any], message: str
) -> None:
    asked = {**request("executable = /bin/true\nqueue\n", key="a"), **change}
    with pytest.raises(RefusedError, match=message):
        as_account("nobody", lambda: point.ask("submit", **asked))
    assert point.slots.value("SELECT count(*) FROM fetchwork.jobs") == 0


@pytest.mark.parametrize(
    ("op", "arguments", "message"),
    [
        ("nothing", {}, "knows no operation 'nothing'"),
        ("__init__", {}, "knows no operation"),
        ("jobs", {"constraint": "((("}, "not a ClassAd expression"),
        ("jobs", {"constraint": "(" * 100_000}, "is longer than"),
        ("jobs", {"memory": 1}, "malformed"),
        ("jobs", {"nonsense": 1}, "malformed"),
        ("jobs", {"limit": "x"}, ""),
        ("view", {"name": "tokens"}, "there is no view 'tokens'"),
        ("totals", {"by": "owner; DROP TABLE x"}, ""),
        ("change", {"action": "__class__", "spec": "1.0"}, "no action"),
        ("change", {"action": "Hold", "spec": ""}, "empty"),
        ("events", {"after": "nonsense", "stop_after": 0}, "not a cursor"),
        ("totals", {"as": 7}, "not an account"),
    ],
)
def test_a_malformed_request_is_one_line_and_the_next_one_is_answered(
    point: AccessPoint, op: str, arguments: dict[str, Any], message: str
) -> None:
    def asks() -> str:
        with Link(str(point.socket)) as link:
            try:
                for _ in link.pages(op, **arguments):
                    pass
                return "nothing was wrong"
            except (FetchworkError, ValueError) as error:
                assert link.ask("totals")[0]["jobs"] == 0
                return str(error)

    told = as_account("nobody", asks)
    assert message in told and told != "nothing was wrong"
    assert "\n" not in told


def test_a_trial_is_checked_and_leaves_nothing(point: AccessPoint) -> None:
    asked = {**request("executable = /bin/true\nqueue 2\n", key="a"), "dry_run": True}
    as_account("nobody", lambda: point.ask("submit", **asked))
    assert point.slots.value("SELECT count(*) FROM fetchwork.jobs") == 0
    with pytest.raises(RefusedError, match="queue 'none' does not exist"):
        as_account("nobody", lambda: point.ask("submit", **{**asked, "extra": {"FetchWorkQueue": "none"}}))


def test_a_constraint_is_evaluated_as_htcondor_does(point: AccessPoint) -> None:
    point.submit("nobody", "executable = /bin/true\n+Size = $(Process)\nqueue 5\n")
    found = as_account(
        "nobody",
        lambda: point.items(
            "jobs", constraint='pow(Size, 2) > 4 && regexp("tr", Cmd)', projection=["ProcId"]
        ),
    )
    assert [ad["ProcId"] for ad in found] == [3, 4]
    done = as_account("nobody", lambda: point.ask("change", action="Hold", spec="pow(Size, 2) > 4"))
    assert done["changed"] == 2


def test_the_same_question_is_asked_of_the_database_once(point: AccessPoint) -> None:
    point.submit("nobody", "executable = /bin/true\nqueue\n")

    def many() -> int:
        begin = time.monotonic()
        for n in range(200):
            if time.monotonic() - begin > 0.5:
                return n
            assert len(point.items("jobs", projection=["ProcId"])) == 1
        return 200

    before = point.status()["shared"]
    asked = as_account("nobody", many)
    # all but the first, of the questions that there was time for; a submission ends a moment after its
    # answer, and an answer is cached for a second, in which a busy machine may not reach the next question
    assert point.status()["shared"] - before >= asked - 3


def test_an_answer_is_never_older_than_what_the_asker_did(point: AccessPoint) -> None:
    def sees_it() -> list[int]:
        seen = []
        for n in range(5):
            with Link(str(point.socket)) as link:
                link.ask("submit", **request("executable = /bin/true\nqueue\n", key=f"k{n}"))
                seen.append(sum(len(page) for page in link.pages("jobs", projection=["ProcId"])))
        with Link(str(point.socket)) as link:
            link.ask("change", action="Remove", spec="true")
            seen.append(sum(len(page) for page in link.pages("jobs", projection=["ProcId"])))
        return seen

    assert as_account("nobody", sees_it) == [1, 2, 3, 4, 5, 0]


@pytest.mark.parametrize(
    ("op", "arguments"),
    [
        ("retrieve", {}),
        ("change", {"action": "Hold", "spec": "false"}),
        ("edit", {"spec": "true", "changes": {"A": 1}}),
        ("act", {"action": "Hold", "spec": "false"}),
        ("reschedule", {}),
    ],
)
def test_what_was_known_before_one_did_something_is_asked_anew(
    point: AccessPoint, op: str, arguments: dict[str, Any]
) -> None:
    point.submit("nobody", "executable = /bin/true\nqueue\n")

    def shared() -> int:
        with Link(str(point.socket)) as link:
            list(link.pages("job_tables", projection=["ProcId"]))
            before = link.ask("status")["shared"]
            link.ask(op, **arguments)
            list(link.pages("job_tables", projection=["ProcId"]))
            shared: int = link.ask("status")["shared"] - before
            return shared

    assert as_account("nobody", shared) == 0


def test_what_one_is_told_is_not_told_to_another(point: AccessPoint) -> None:
    point.submit("nobody", "executable = /bin/true\nqueue\n")
    for _ in range(3):
        assert len(as_account("nobody", lambda: point.items("jobs", projection=["ProcId"]))) == 1
        assert as_account("daemon", lambda: point.items("jobs", projection=["ProcId"])) == []
        assert len(point.items("jobs", projection=["ProcId"])) == 1


def test_events_come_as_they_happen_to_their_owner_alone(point: AccessPoint) -> None:
    start = as_account("nobody", lambda: point.ask("cursor"))
    cluster = point.submit("nobody", "executable = /bin/true\nqueue\n")["cluster"]
    as_account("nobody", lambda: point.ask("change", action="Remove", spec=f"{cluster}.0"))
    seen = as_account("nobody", lambda: point.items("events", after=start, stop_after=1))
    assert [line.split("\t")[2] for line in seen] == ["0", "9"]
    assert as_account("daemon", lambda: point.items("events", after=start, stop_after=0)) == []


def test_a_refusal_is_the_exception_that_it_is_without_an_access_point(point: AccessPoint) -> None:
    with pytest.raises(SubmitError, match="makes no jobs"):
        point.ask("submit", **request("executable = /bin/true\nqueue 0\n", key="a"), **{"as": "nobody"})
