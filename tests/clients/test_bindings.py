"""HTCondor's bindings as Debian's Python has them, without what fetchwork needs, over an access point."""

import json
import re

import pytest

from fetchwork.pool.condorroot import VENV
from tests.clients.conftest import Clients
from tests.support.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.condor, pytest.mark.newest]

PYTHON = "/usr/bin/python3"
#: both series have these names; each prints the same
PROGRAM = """
import json, sys, time
import MODULE as bindings
schedd = bindings.Schedd()
described = "executable = /bin/sleep\\narguments = 0\\ntransfer_executable = false\\nlog = p.log\\n"
described += "requirements = R\\nqueue 2"
made = schedd.submit(bindings.Submit(described.replace("R", "false")))
mine = f"ClusterId == {made.cluster()}"
told = [made.num_procs(), made.first_proc()]
act = bindings.JobAction
told.append(schedd.act(act.Hold, f"{mine} && ProcId == 0", "looked")["TotalSuccess"])
told.append(sorted((ad["ProcId"], ad["JobStatus"]) for ad in schedd.query(mine, ["ProcId", "JobStatus"])))
told.append(schedd.edit([f"{made.cluster()}.1"], "Mine", "1 + 1"))
told.append([ad["ProcId"] for ad in schedd.query(f"{mine} && Mine == 2")])
told.append(schedd.act(act.Remove, [f"{made.cluster()}.{n}" for n in range(2)])["TotalSuccess"])
runs = schedd.submit(bindings.Submit(described.replace("R", "true").replace("queue 2", ""))).cluster()
while not (ended := list(schedd.history(f"ClusterId == {runs}", ["ExitCode", "JobStatus"], 1))):
    time.sleep(0.2)
told.append([ended[0]["ExitCode"], ended[0]["JobStatus"]])
# an agent reports its slots some seconds after their fetches
while not bindings.Collector().query(bindings.AdTypes.Startd):
    time.sleep(0.2)
told.append(bindings.Collector().query(bindings.AdTypes.Schedd)[0]["TotalIdleJobs"])
found = []
for event in bindings.JobEventLog("p.log").events(stop_after=60):
    if event.cluster != runs:
        continue
    found.append(event.type.name)
    if event.type.name == "JOB_TERMINATED":
        break
told.append(found)
for wrong in ("ClusterId ==", "ProcId == ("):
    try:
        list(schedd.query(wrong))
    except Exception as error:
        told.append(type(error).__name__)
print(json.dumps(told))
"""


def _has(clients: Clients, module: str) -> bool:
    return (
        clients.pool.run_command([PYTHON, "-W", "ignore", "-c", f"import {module}"], check=False).returncode
        == 0
    )


@pytest.mark.parametrize("module", ["htcondor2", "htcondor"])
def test_a_python_that_has_bindings_alone_asks_an_access_point(clients: Clients, module: str) -> None:
    if not _has(clients, module):
        pytest.skip(f"this HTCondor has no {module}")
    assert not _has(clients, "psycopg")
    folder = clients.folder(f"bare-{module}", program__py=PROGRAM.replace("MODULE", module))
    done = clients.run(folder, PYTHON, "-W", "ignore", "program.py")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [
        2, 0, 1, [[0, 5], [1, 1]], 1, [1], 2, [0, 4], 0,
        ["SUBMIT", "EXECUTE", "JOB_TERMINATED"],
        *[{"htcondor2": "ClassAdError", "htcondor": "HTCondorIOError"}[module]] * 2,
    ]  # fmt: skip


DRAIN = """
import htcondor2
startd = htcondor2.Startd()
drained = startd.drainJobs(reason="a test")
print(htcondor2.Collector().query(htcondor2.AdType.Slot, projection=["Name"]) != [], drained != "")
startd.cancelDrainJobs(drained)
"""


def test_a_startd_that_can_be_reached_is_drained(clients: Clients) -> None:
    if not _has(clients, "htcondor2"):
        pytest.skip("this HTCondor has no htcondor2")
    slots = "SELECT EXISTS (SELECT 1 FROM fetchwork.slots)"
    until(lambda: clients.pool.postgres.query(slots, dbname="fetchwork").strip() == "t")
    environment = ["env", f"FETCHWORK_ACCESS_POINT={clients.socket}", "USER=root", "HOME=/tmp/root"]
    words = [f"{VENV}/bin/fetchwork", "env", "--", PYTHON, "-W", "ignore", "-c", DRAIN]
    in_tmp = ["sh", "-c", 'cd /tmp && exec "$@"', "sh"]
    done = clients.pool.run_command([*in_tmp, *environment, *words], check=False)
    assert done.stdout == "True True\n", done.stderr


def test_without_an_access_point_one_line_says_what_is_missing(clients: Clients) -> None:
    folder = clients.folder("bare")
    done = clients.run(
        folder, PYTHON, "-W", "ignore", "-c", "import htcondor2", FETCHWORK_ACCESS_POINT="none"
    )
    assert done.stderr.splitlines()[-1] == (
        "ImportError: htcondor2 over a fetchwork queue needs an access point on this host, or psycopg in this"
        " Python (/usr/bin/python3) to ask the database by itself"
    )


def test_htcondors_own_command_submits_and_shows_a_job(clients: Clients) -> None:
    text = "executable = /bin/sleep\narguments = 600\ntransfer_executable = false\n"
    folder = clients.folder("cli", job__sub=text)
    done = clients.run(folder, "/usr/bin/htcondor", "job", "submit", "job.sub")
    found = re.search(r"Job (\d+) was submitted", done.stdout + done.stderr)
    assert found, done.stdout + done.stderr

    def status() -> str:
        shown = clients.run(folder, "/usr/bin/htcondor", "job", "status", found[1])
        assert shown.returncode == 0, shown.stderr
        return shown.stdout + shown.stderr

    until(lambda: "running" in status())
