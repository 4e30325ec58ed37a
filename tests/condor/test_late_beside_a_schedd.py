"""Late clusters (max_materialize, max_idle) on a real schedd and here: the jobs that are made, and when."""

import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fetchwork.classad.bindings import JobAction
from fetchwork.condor import commands
from fetchwork.condor.invocation import Invocation
from fetchwork.errors import SubmitError
from fetchwork.pool import PersonalPool
from fetchwork.queue import Queue
from fetchwork.queue.session import Session
from tests.condor.sides import CONFIG, HOST
from tests.support.waiting import until

# its commands are the pool's own HTCondor, which trusts the file system
CONFIG_OF_COMMANDS = CONFIG.partition("# the bindings")[0].replace("SlotID == 1", "SlotID % 2 == 1")
JOB = """
executable = /bin/sleep
arguments = 1
initialdir = /tmp
transfer_executable = false
should_transfer_files = IF_NEEDED
request_memory = 1MB
request_disk = 1MB
"""
ITEMS = """
MY.Foo = "$(a)"
MY.Both = "$(b)-$(Process)-$(Step)-$(Row)"
MY.Number = $(Process)
MY.Sum = $(Process) + 2 * $(Step)
MY.Value = $(c)
arguments = $(a) $(b) $(ProcId)
output = out.$(a).$(Process)
priority = 3
queue 2 a,b,c from (
  A, x, 1
  B, y-z, 2.5
  C, é, "text"
  D, a=b;c, true
  E, w, Number + 1
)
"""
NAMES = ("Foo", "Both", "Number", "Sum", "Value", "Args", "Out", "JobPrio", "TotalSubmitProcs")


class Both:
    """The same description on the schedd, by bob, and here, by alice."""

    def __init__(self, pool: PersonalPool) -> None:
        self.pool = pool
        self.queue = Queue(pool.conninfo)

    def command(self, *words: str) -> str:
        """The output of a command of the schedd."""
        script = 'cd /tmp && exec "$0" "$@"'
        ran = self.pool.run_command(["/bin/sh", "-c", script, *words], user="bob")
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def ours(self, *words: str) -> str:
        """The output of a command of ours, for alice."""
        out, err = io.BytesIO(), io.BytesIO()
        with Session(self.pool.conninfo) as session:
            run = Invocation(words, io.BytesIO(), out, err, lambda: session, environment={}, user="alice")
            assert commands.run(run) == 0, err.getvalue()
        return out.getvalue().decode()

    def submit_factory(self, text: str) -> "Clusters":
        """The description by condor_submit -factory, here and there."""
        file = self._write(text)
        theirs = self.command("condor_submit", "-factory", "late.sub")
        ours = self.ours("condor_submit", "-factory", str(file))
        found = [answer.rstrip(".\n").rpartition(" ") for answer in (theirs, ours)]
        assert found[0][0] == found[1][0], (theirs, ours)
        return Clusters(self, found[0][2], found[1][2])

    def _write(self, text: str) -> Path:
        file = self.pool.directory / "tmp/late.sub"
        file.write_text(text)
        file.chmod(0o644)
        return file

    def submit(self, text: str) -> "Clusters":
        self._write(text)
        theirs = self.command("condor_submit", "late.sub").rstrip(".\n").rpartition(" ")[2]
        result = self.queue.submit(text, owner="alice")
        return Clusters(self, theirs, str(result.cluster()))


class Clusters:
    """A cluster there, and one here."""

    def __init__(self, both: Both, theirs: str, ours: str) -> None:
        self._both = both
        self.theirs = theirs
        self.ours = ours

    def act(self, action: str, proc: str = "") -> None:
        self._both.command(f"condor_{action}", self.theirs + proc)
        if not proc:
            assert self._both.ours(f"condor_{action}", self.ours)
            return
        named = {"rm": JobAction.Remove, "hold": JobAction.Hold, "release": JobAction.Release}[action]
        assert self._both.queue.act(named, [self.ours + proc])["TotalSuccess"] > 0

    def present_there(self, *names: str) -> list[list[str]]:
        """ProcId, JobStatus and other values of the jobs there."""
        asked = ("-af:Vt", "ProcId", "JobStatus", *names)
        lines = self._both.command("condor_q", self.theirs, *asked).splitlines()
        return sorted(line.split("\t") for line in lines)

    def present_here(self, *names: str) -> list[list[str]]:
        """The same of those here."""
        ads = self._both.queue.query(f"ClusterId == {self.ours}")
        return sorted([_printed(ad.eval(name)) for name in ("ProcId", "JobStatus", *names)] for ad in ads)

    def shown(self) -> tuple[list[str], list[str]]:
        """The words of condor_q -factory there and here, without owner, times and the digest's file."""
        theirs = self._both.command("condor_q", "-factory", self.theirs)
        return _words(theirs), _words(self._both.ours("condor_q", "-factory", self.ours))

    def log(self, name: str) -> tuple[list[str], list[str]]:
        """The entries of the cluster itself in the log there, and as the events here give them."""
        log = (self._both.pool.directory / "tmp" / name).read_text()
        events = self._both.queue.events(job=self.ours, stop_after=0)
        return _entries(log), _entries("".join(event.log_entry for event in events))

    def agree(self) -> list[str]:
        """The ProcIds here, once both have the same jobs in the same states."""
        until(
            lambda: self.present_there() == self.present_here(),
            lambda: f"{self.present_there()} there to be {self.present_here()} here",
            0.2,
        )
        return [proc for proc, _ in self.present_here()]


def _words(table: str) -> list[str]:
    lines = [line.split() for line in table.splitlines() if line.strip() and not line.startswith("--")]
    return [word for line in lines for word in (line if line[0] == "ID" else line[4:11])]


def _entries(log: str) -> list[str]:
    entries = [entry for entry in log.split("...\n") if ".-01." in entry[:20]]
    kept = [re.sub(r"\(\d+\.|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|<.*>", "", entry) for entry in entries]
    return [entry.replace("user alice", "user bob") for entry in kept]


def _printed(value: object) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else str(value)


@pytest.fixture(scope="module")
def both(make_pool: Callable[..., PersonalPool]) -> Iterator[Both]:
    pool = make_pool(slots=4, config=CONFIG_OF_COMMANDS, host=HOST)
    both = Both(pool)
    until(lambda: "Total" in both.command("condor_q"), "the schedd")
    with both.queue:
        yield both


@pytest.mark.parametrize("limit", ["", "max_idle = 2\n", "max_materialize = 3\n"])
def test_a_factory_has_the_limits_of_its_description_alone(both: Both, limit: str) -> None:
    clusters = both.submit_factory(f"{JOB}requirements = false\n{limit}queue 5\n")
    assert len(clusters.agree()) == {"": 5, "max_idle = 2\n": 2, "max_materialize = 3\n": 3}[limit]
    theirs, ours = clusters.shown()
    # a schedd finds later that all are made, which is known here at once
    assert [word.replace("Done", "Norm") for word in ours] == theirs
    clusters.act("rm")


@pytest.mark.parametrize(
    "limits", ["max_idle = 4", "max_materialize = 7", "max_materialize = 0\nmax_idle = 99"]
)
def test_jobs_of_items_have_the_same_ads(both: Both, limits: str) -> None:
    clusters = both.submit(f"{JOB}\nrequirements = false\n{limits}\n{ITEMS}")
    assert len(clusters.agree()) == {"max_idle = 4": 4, "max_materialize = 7": 7}.get(limits, 10)
    assert clusters.present_here(*NAMES) == clusters.present_there(*NAMES)
    clusters.act("rm")
    assert clusters.agree() == []


@pytest.mark.parametrize(
    "limits", ["max_idle = 2", "max_materialize = 2", "max_idle = 3\nmax_materialize = 2"]
)
def test_what_is_asked_of_jobs_and_of_the_cluster_has_the_same_effect(both: Both, limits: str) -> None:
    # a released job that ran before it is held again would let another one be made
    clusters = both.submit(f"{JOB}\nrequirements = false\nhold = true\n{limits}\nqueue 9\n")
    assert clusters.agree() == ["0", "1"]
    clusters.act("rm", ".0")
    assert clusters.agree() == ["1", "2"]
    clusters.act("hold")
    clusters.act("rm", ".2")
    assert clusters.agree() == ["1"]
    clusters.act("release")
    clusters.act("hold", ".1")
    assert clusters.agree() == ["1", "3"]
    clusters.act("rm")
    assert clusters.agree() == []


def test_a_cluster_that_makes_no_jobs_is_removed(both: Both) -> None:
    clusters = both.submit(f"{JOB}\nmax_idle = 0\nqueue 9\n")
    assert clusters.agree() == []
    clusters.act("rm")
    assert both.queue.act(JobAction.Remove, clusters.ours)["TotalNotFound"] == 1


def test_the_cluster_is_shown_as_a_factory_and_its_limits_are_edited(both: Both) -> None:
    clusters = both.submit(f"{JOB}\nhold = true\nmax_materialize = 6\nmax_idle = 2\nqueue 9\n")

    def agree(*states: str) -> None:
        until(lambda: clusters.shown()[0] == clusters.shown()[1], clusters.shown, 0.2)
        assert clusters.shown()[1][-7:] == list(states)

    agree("6", "2", "0", "0", "2", "2", "Norm")
    for name, value, states in (
        ("JobMaterializeMaxIdle", "4", ("6", "4", "0", "0", "4", "4", "Norm")),
        ("JobMaterializeLimit", "5", ("5", "4", "0", "0", "4", "4", "Norm")),
        ("Mine", "7", ("5", "4", "0", "0", "4", "4", "Norm")),
        ("JobMaterializeMaxIdle", "9", ("5", "5", "0", "0", "5", "5", "Norm")),
    ):
        theirs = both.command("condor_qedit", clusters.theirs, name, value)
        assert both.ours("condor_qedit", clusters.ours, name, value) == theirs
        agree(*states)
    assert clusters.present_here("Mine") == clusters.present_there("Mine")
    clusters.act("hold")
    agree("5", "5", "0", "0", "5", "5", "Held")
    clusters.act("rm")
    assert clusters.agree() == []


def test_the_events_of_the_cluster_are_those_of_a_schedd(both: Both) -> None:
    # no slot runs them after their release
    asked = "log = /tmp/late.log\nhold = true\nmax_idle = 3\nrequirements = Memory < 0"
    clusters = both.submit(f"{JOB}\n{asked}\nqueue 2 in (a, b, c)\n")
    for action in ("hold", "release", "rm"):
        assert clusters.agree()
        clusters.act(action)
    assert clusters.agree() == []
    until(lambda: len(clusters.log("late.log")[0]) == 4, lambda: clusters.log("late.log"), 0.2)
    theirs, ours = clusters.log("late.log")
    assert ours == theirs


@pytest.mark.parametrize("queue", ["queue 2", "queue in (a, b)", "queue 2 in (a, b)"])
def test_the_end_of_the_cluster_is_an_event(both: Both, queue: str) -> None:
    name = f"{queue.replace(' ', '')}.log"
    clusters = both.submit(f"{JOB}\nlog = /tmp/{name}\nmax_materialize = 2\n{queue}\n")
    until(lambda: [len(side) for side in clusters.log(name)] == [2, 2], lambda: clusters.log(name), 0.2)
    theirs, ours = clusters.log(name)
    assert ours == theirs


def _most(queue: Queue, cluster: str) -> tuple[int, int]:
    """The most jobs that were in the queue, and those of them that did not run, by the events."""
    present = idle = 0
    most = (0, 0)
    for event in queue.events(job=cluster, stop_after=0):
        number = event.type_number
        present += (number == 0) - (number == 5)
        idle += (number == 0) - (number == 1)
        most = max(most[0], present), max(most[1], idle)
    return most


@pytest.mark.parametrize(("most", "idle"), [(2, 5), (3, 2)])
def test_jobs_are_made_as_others_start_and_end(both: Both, most: int, idle: int) -> None:
    """As test_late_materialization.py of HTCondor has it: never more than the limits, which are met."""
    limits = f"max_materialize = {most}\nmax_idle = {idle}"
    clusters = both.submit(f"{JOB}\n{limits}\nqueue {most + idle + 1}\n")
    until(lambda: clusters.present_here() == [] == clusters.present_there(), "the last job", 0.5)
    done = both.queue.history(f"ClusterId == {clusters.ours}")
    assert sorted(ad["ProcId"] for ad in done) == list(range(most + idle + 1))
    assert {ad["JobStatus"] for ad in done} == {4}
    assert _most(both.queue, clusters.ours) == (most, min(most, idle))


def test_what_a_template_cannot_have_is_refused_by_name(both: Both) -> None:
    for line, name in (
        ("arguments = $INT(Process,%03d)", "$INT(Process,%03d)"),
        ("arguments = $RANDOM_CHOICE(a,b)", "$RANDOM_CHOICE(a,b)"),
        ("name = a.$(Process)\narguments = $Fn(name)", "$Fn(name)"),
        ("if $(Process)\narguments = a\nendif", "if $(process)"),
    ):
        with pytest.raises(SubmitError, match="can't be had in a late cluster") as refused:
            both.queue.submit(f"{JOB}\nmax_idle = 2\n{line}\nqueue 3\n", owner="alice")
        assert f"'{name}'" in str(refused.value)
