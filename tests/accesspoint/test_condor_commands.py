"""HTCondor's commands through an access point: without a connection string, with the client's rights."""

import importlib
import subprocess
import sys

from fetchwork.condor import commands
from tests.accesspoint.commands import SLEEP, condor
from tests.accesspoint.point import AccessPoint

_USED = (
    "fetchwork.condor.q.qsource",
    "fetchwork.queue.submitting.submission", "fetchwork.queue.submitting.descriptions",
    "fetchwork.queue.session", "fetchwork.queue.changing", "fetchwork.classad.bindings", "uuid",
)  # fmt: skip

# an account without rights on this checkout can import no further module
for name in {
    *(f"fetchwork.condor.{where.partition(':')[0]}" for where in commands.COMMANDS.values()),
    *_USED,
}:
    importlib.import_module(name)


def test_commands_go_by_the_access_point(point: AccessPoint) -> None:
    answer = condor(point, "nobody", "condor_submit", stdin=SLEEP.format(2))
    assert answer == (0, "Submitting job(s)..\n2 job(s) submitted to cluster 1.\n", "")
    assert condor(point, "nobody", "condor_submit", "-terse", stdin=SLEEP.format(1))[1] == "2.0 - 2.0\n"
    assert condor(point, "nobody", "condor_q", "1", "-af:j", "JobStatus")[1] == "1.0 1\n1.1 1\n"
    table = condor(point, "nobody", "condor_q", "-nobatch")[1]
    assert "   1.0   nobody " in table and "Total for query: 3 jobs;" in table
    assert condor(point, "nobody", "condor_hold", "1.0", "9.0") == (
        0,
        "Job 1.0 held\n",
        "Job 9.0 not found\n",
    )
    assert condor(point, "nobody", "condor_release", "1") == (
        0, "All jobs in cluster 1 have been released\n",
        "",
    )  # fmt: skip
    assert condor(point, "nobody", "condor_qedit", "1.0", "Foo", "7")[0] == 0
    assert condor(point, "nobody", "condor_prio", "-p", "3", "1.0")[0] == 0
    assert condor(point, "nobody", "condor_q", "1.0", "-af", "Foo", "JobPrio")[1] == "7 3\n"
    assert condor(point, "nobody", "condor_rm", "1", "2.0")[0] == 0
    assert condor(point, "nobody", "condor_history", "-af:j", "JobStatus")[1].splitlines()[-1].endswith(" 3")


def test_a_command_says_in_a_line_which_ceiling_was_met(point: AccessPoint) -> None:
    point.slots.set("max_idle_per_submitter", 2)
    point.slots.set("max_autoclusters_per_submitter", 1)
    assert condor(point, "nobody", "condor_submit", stdin=SLEEP.format(2))[0] == 0
    status, _, err = condor(point, "nobody", "condor_submit", stdin=SLEEP.format(1))
    told = (
        "submitter 'nobody' would have 3 idle jobs in the queue; allowed: 2 (setting max_idle_per_submitter;"
        " an administrator may raise it)"
    )
    assert (status, err) == (1, f"\nERROR: {told}\n")
    status, _, err = condor(point, "nobody", "condor_qedit", "1.0", "RequestMemory", "7")
    assert status == 1
    assert (
        "would have 2 autoclusters in the queue; allowed: 1 (setting max_autoclusters_per_submitter; " in err
    )
    assert condor(point, "nobody", "condor_hold", "1.0")[0] == 0
    assert condor(point, "nobody", "condor_submit", stdin=SLEEP.format(1))[0] == 0
    status, _, err = condor(point, "nobody", "condor_release", "1.0")
    assert (status, told in err) == (1, True), err
    # another account's jobs count apart
    assert condor(point, "daemon", "condor_submit", stdin=SLEEP.format(2))[0] == 0


def test_another_account_reaches_none_of_ones_jobs(point: AccessPoint) -> None:
    condor(point, "nobody", "condor_submit", stdin=SLEEP.format(1))
    assert condor(point, "daemon", "condor_q", "1.0", "-af", "Owner")[1] == ""
    before = condor(point, "nobody", "condor_q", "1.0", "-af", "JobStatus", "JobPrio", "A")
    for words in (
        *(
            ["condor_rm", "1.0"],
            ["condor_hold", "1"],
            ["condor_release", "1.0"],
            ["condor_vacate_job", "1.0"],
        ),
        *(["condor_rm", "nobody"], ["condor_rm", "-constraint", 'Owner == "nobody"'], ["condor_tail", "1.0"]),
        *(["condor_qedit", "1.0", "A", "1"], ["condor_prio", "-p", "5", "1.0"]),
    ):
        status, out, err = condor(point, "daemon", *words)
        # HTCondor's condor_prio ends with 0 even after a failure
        assert (status, out) == (int(words[0] != "condor_prio"), ""), words
        assert err.strip() and "Traceback" not in err, words
    assert condor(point, "nobody", "condor_q", "1.0", "-af", "JobStatus", "JobPrio", "A") == before
    assert before[1] == "1 0 undefined\n"


def test_a_command_that_polls_loads_no_library_of_postgresql_or_htcondor(point: AccessPoint) -> None:
    condor(point, "nobody", "condor_submit", stdin=SLEEP.format(1))
    program = (
        "import sys; sys.argv = ['condor_q', '1', '-af', 'JobStatus']\n"
        "from fetchwork.condor import commands, invocation\n"
        "from fetchwork.queue.remote import opened\n"
        "run = invocation.of_process(sys.argv, lambda: opened(None)); commands.run(run); run.stdout.flush()\n"
        "print(sorted(name for name in sys.modules if name in ('psycopg', 'classad2', 'htcondor2', 'click')))"
    )
    environment = {"PATH": "/usr/bin:/bin", "FETCHWORK_ACCESS_POINT": str(point.socket)}
    printed = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert printed.stdout == "1\n[]\n"
