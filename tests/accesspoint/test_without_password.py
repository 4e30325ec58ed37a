"""Every command of a person goes through the access point, for an account without a connection string."""

import contextlib
import io
import itertools
import os
import sys

from fetchwork import cli
from fetchwork.cli import COMMANDS
from fetchwork.client.link import OWNER_VARIABLE, VARIABLE
from tests.accesspoint.point import AccessPoint, as_account, request
from tests.support.told_hosts import Hosts

SLOT = 'MyType = "Machine"\nName = "slot1@h1"\nCpus = 4\nMemory = 4096\nDisk = 1000000\n'
NEEDS_DATABASE = "the access point does not do this; it needs the database itself: name it with --dsn"
#: calls of each command, and a text of their output; JOB is a job of the account
CALLS: dict[str, list[tuple[str, str]]] = {
    "submit": [("submit DIRECTORY/sub", "submitted to cluster")],
    "q": [
        ("q", "Total for query: 2 jobs"),
        ("q -better-analyze JOB", "TARGET.Memory > 999999"),
        ("q -better-analyze", "queue default"),
    ],
    "history": [("history", "")],
    "hold": [("hold JOB", "JOB")],
    "release": [("release JOB", "JOB")],
    "edit": [("edit JOB JobPrio=7", 'Set attribute "JobPrio" for 1 matching jobs')],
    "runs": [("runs", "OUTCOME")],
    "credential": [("credential list", "")],
    "checkpoints": [("checkpoints", "BYTES"), ("checkpoints --clean-up", NEEDS_DATABASE)],
    "tail": [("tail JOB", "")],
    "transfer-data": [("transfer-data -all", "")],
    "dag": [("dag rescue 999", "999")],
    "watch": [("watch -constraint false --until-empty", "")],
    "events": [("events JOB", "Job submitted from host"), ("events --after x", "x")],
    "slots": [("slots", "slot1@h1"), ("slots --hosts", "h1")],
    "demand": [("demand", "OLDEST"), ("demand --slot-ad DIRECTORY/slot", "2 idle job")],
    "match": [("match slot1@h1", "rejecting the slot by their Requirements")],
    "submitters": [("submitters", "nobody")],
    "prio": [("prio", "nobody"), ("prio nobody --factor 5", NEEDS_DATABASE)],
    "limit": [("limit", "MAXIMUM"), ("limit license 5", NEEDS_DATABASE)],
    "group": [("group list", "REQUESTED"), ("group set a --quota 1", NEEDS_DATABASE)],
    "queues": [("queues", "default"), ("queues default", "default"), ("queues x --pause", NEEDS_DATABASE)],
    "vacate": [("vacate JOB", "JOB")],
    "suspend": [("suspend JOB", "JOB")],
    "continue": [("continue JOB", "JOB")],
    "rm": [("rm JOB", "JOB")],
    "wait": [("wait JOB", "")],
}
#: commands of administrators, or of a machine
OTHERS = {"userlog", "pool", "demo", "simulate"}


def run(point: AccessPoint, words: str) -> str:
    """The output of a command that an account without a connection string runs."""

    def command() -> str:
        for name in [name for name in os.environ if name.startswith(("PG", "FETCHWORK_"))]:
            del os.environ[name]
        os.environ.update(
            {VARIABLE: str(point.socket), OWNER_VARIABLE: "nobody", "COLUMNS": "200", "HOME": "/"}
        )
        said = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            cli.run(words.split())
        return said.buffer.getvalue().decode()

    # another process evaluates ads; if `nobody` may not start Python, root acts for this account
    account = "nobody" if as_account("nobody", lambda: os.access(sys.executable, os.X_OK)) else "root"
    return str(as_account(account, command))


def test_every_command_of_a_person_is_tried_here() -> None:
    of_people = {name for title in ("Jobs", "Following", "The pool") for name in COMMANDS[title]}
    assert of_people == set(CALLS) | OTHERS


def test_every_command_goes_by_way_of_the_access_point(point: AccessPoint) -> None:
    text = "executable = /bin/true\nrequirements = TARGET.Memory > 999999\nqueue 1\n"
    cluster = as_account("nobody", lambda: point.ask("submit", **request(text, key="a")))["cluster"]
    Hosts(point.slots).tell("slot1@h1")
    (point.directory / "sub").write_text("executable = /bin/true\nqueue 1\n")
    (point.directory / "slot").write_text(SLOT)
    for words, text in itertools.chain.from_iterable(CALLS.values()):
        said = run(point, words.replace("JOB", f"{cluster}.0").replace("DIRECTORY", str(point.directory)))
        assert text.replace("JOB", f"{cluster}.0") in said, (words, said)
        assert "Traceback" not in said and "database does not answer" not in said, (words, said)
        assert (NEEDS_DATABASE in said) == (text == NEEDS_DATABASE), (words, said)
