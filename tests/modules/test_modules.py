"""HTCondor's modules over the queue, as the programs that use them call them."""

import getpass
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from psycopg.types.json import Jsonb

from tests.support.direct_queue import DirectQueue

Program = Callable[..., str]

# a job's Owner: root has no jobs
PREAMBLE = """
import getpass, pwd
getpass.getuser = lambda: "nobody"
"""

SECOND = (
    PREAMBLE
    + """
import htcondor2, classad2
assert htcondor2.version().startswith("$CondorVersion")
submit = htcondor2.Submit({
    "executable": "/bin/sleep", "arguments": "$(seconds)", "request_cpus": "1",
    "transfer_executable": "false", "My.Stamp": '"of mine"',
})
location = htcondor2.Collector().locate(htcondor2.DaemonType.Schedd)
schedd = htcondor2.Schedd(location)
result = schedd.submit(submit, itemdata=iter([{"seconds": "1"}, {"seconds": "2"}]))
cluster = result.cluster()
assert result.num_procs() == 2
ads = schedd.query(f"ClusterId == {cluster}", projection=["ProcId", "JobStatus", "Stamp", "Owner"])
assert [(ad["ProcId"], ad["JobStatus"], ad["Stamp"], ad["Owner"]) for ad in ads] == [
    (0, 1, "of mine", "nobody"), (1, 1, "of mine", "nobody")
], ads
assert isinstance(ads[0], classad2.ClassAd)
(summary,) = schedd.query("true", opts=htcondor2.QueryOpts.SummaryOnly)
assert summary["Idle"] == 2, summary
assert schedd.act(htcondor2.JobAction.Hold, f"{cluster}.0", reason=("wait", 7))["TotalSuccess"] == 1
late = "JobStatus == 5 && CurrentTime > QDate - 60"
(held,) = schedd.query(late, ["HoldReason,HoldReasonSubCode"], limit="2")
assert (held["HoldReason"], held["HoldReasonSubCode"]) == ("wait (by user nobody)", 7), held
assert sorted(held) == ["HoldReason", "HoldReasonSubCode", "ServerTime"], held
for projection in ("ProcId", [5]):
    try:
        schedd.query("true", projection)
    except TypeError:
        continue
    raise AssertionError(projection)
try:
    schedd.edit([f"{cluster}.1", f"{cluster}.9"], "Mine", "1")
except htcondor2.HTCondorException:
    assert not schedd.query("Mine == 1")
else:
    raise AssertionError("a job is missing")
schedd.edit([f"{cluster}.1"], "JobPrio", "7")
schedd.act(htcondor2.JobAction.Remove, [f"{cluster}.0", f"{cluster}.1"])
assert schedd.query(f"ClusterId == {cluster}") == []
(ended, *_) = schedd.history(f"ClusterId == {cluster} && ProcId == 1", ["JobStatus", "JobPrio"], 1)
assert (ended["JobStatus"], ended["JobPrio"]) == (3, 7)
assert schedd.history(f"ClusterId == {cluster} && ProcId == 0", since=f"ProcId == 1") == []
assert location["MyAddress"] and htcondor2.Collector().locate(htcondor2.DaemonType.Schedd, "none") is None
assert htcondor2.ping(location)["AuthorizationSucceeded"] is True
assert len(htcondor2.Collector("cm.example.org").locateAll(htcondor2.DaemonType.Schedd)) == 1
print("done")
"""
)


def test_a_program_of_the_second_version_runs(program: Program) -> None:
    assert program(SECOND) == "done\n"


FIRST = (
    PREAMBLE
    + """
import warnings
warnings.simplefilter("ignore")
import classad, htcondor
schedd = htcondor.Schedd(htcondor.Collector("cm.example.org").locate(htcondor.DaemonTypes.Schedd))
submit = htcondor.Submit({"executable": "/bin/sleep", "arguments": "9", "transfer_executable": "false"})
with schedd.transaction() as txn:
    ads = []
    cluster = submit.queue(txn, count=3, ad_results=ads)
assert len(ads) == 3 and isinstance(ads[0], classad.ClassAd)
found = [ad["ProcId"] for ad in schedd.xquery(requirements=f"ClusterId == {cluster}", projection=["ProcId"])]
assert found == [0, 1, 2], found
assert schedd.query(classad.ExprTree(f"ClusterId == {cluster} && ProcId == 1"), ["ProcId"])[0]["ProcId"] == 1
result = schedd.submit(submit, itemdata=[{"arguments": "1"}], count=2)
assert result.num_procs() == 2
made = classad.ClassAd({"Cmd": "/bin/true", "Args": "9"})
many = schedd.submitMany(made, [(classad.ClassAd({"Mine": n}), n) for n in (1, 2)])
assert [ad["Mine"] for ad in schedd.query(f"ClusterId == {many}", ["Mine"])] == [1, 2, 2]
assert schedd.act(htcondor.JobAction.Hold, f"ClusterId == {cluster}")["TotalSuccess"] == 3
assert schedd.act(htcondor.JobAction.Remove, [f"{cluster}.0"])["TotalSuccess"] == 1
(ended,) = schedd.history(f"ClusterId == {cluster}", ["JobStatus"], 1)
assert ended["JobStatus"] == 3
with htcondor.SecMan() as security:
    security.setTag("x")
    assert security.ping(None, "WRITE")["AuthorizationSucceeded"]
try:
    schedd.submit(htcondor.Submit({"executable": "/bin/true", "universe": "vm"}))
except htcondor.HTCondorIOError as error:
    print("refused:", error)
"""
)


def test_an_access_point_is_asked_with_the_standard_library_alone(
    program: Program, environment: dict[str, str]
) -> None:
    if "FETCHWORK_ACCESS_POINT" not in environment:
        pytest.skip("a database is asked with psycopg")
    absent = ("psycopg", "nacl", "click", "jinja2", "prometheus_client", "starlette", "pydantic", "fastapi")
    blocked = f"import sys\nsys.modules.update(dict.fromkeys({absent}))\n"
    assert "JOB" in program(blocked + SECOND + "print('JOB')")


def test_a_program_of_the_first_version_runs(program: Program) -> None:
    assert program(FIRST).startswith("refused: ")


@pytest.mark.parametrize(
    ("module", "spec"),
    [
        ("htcondor2", "'{job}'"),
        ("htcondor2", "classad2.ExprTree('ClusterId == {cluster} && JobStatus == 4')"),
        ("htcondor", "['{job}']"),
        ("htcondor", "'ClusterId == {cluster}'"),
    ],
)
@pytest.mark.parametrize("environment", ["database"], indirect=True)
def test_what_jobs_left_is_retrieved(
    program: Program, slots: DirectQueue, public_directory: Callable[[], Path], module: str, spec: str
) -> None:
    owner = getpass.getuser() if os.geteuid() else "nobody"
    home = public_directory()
    home.chmod(0o777)
    left = {"Cmd": "/bin/true", "Owner": owner, "Iwd": str(home), "FetchWorkFiles": "sandbox"}
    for name in ("made", "other"):
        (job,) = slots.submit_many([{}], left)
        run = slots.started()
        assert slots.of(run, "keep_outputs", manifest=Jsonb([{"name": f"{name}/", "mode": 0o755}])) == "kept"
        assert slots.finish(run) == "completed"
    job = job.replace("2.", "1.")
    asked = spec.format(job=job, cluster=job.split(".")[0])
    classads = {"htcondor2": "classad2", "htcondor": "classad"}[module]
    program(
        "import warnings; warnings.simplefilter('ignore')\n"
        f"import {module}, {classads}\n{module}.Schedd().retrieve({asked})\n"
    )
    assert [path.name for path in home.iterdir()] == ["made"]


@pytest.mark.parametrize(
    ("module", "call"),
    [
        ("htcondor2", "htcondor2.Negotiator().setUsage('alice@vm', 2.0)"),
        ("htcondor2", "htcondor2.RemoteParam(None)['x']"),
        ("htcondor2", "htcondor2.Schedd().queryUserAds()"),
        ("htcondor2", "htcondor2.Credd().add_password('x')"),
        ("htcondor2", "htcondor2.Schedd().refreshGSIProxy(1, 0, 'x', -1)"),
        ("htcondor2", "htcondor2.Schedd().spool([])"),
        ("htcondor2", "htcondor2.send_command(None, None)"),
        ("htcondor", "htcondor.Negotiator().resetAllUsage()"),
        ("htcondor", "htcondor.Schedd().spool([])"),
        ("htcondor", "htcondor.RemoteParam(None).refresh()"),
        ("htcondor", "htcondor.SecMan().getCommandString(1)"),
    ],
)
@pytest.mark.parametrize("environment", ["database"], indirect=True)
def test_what_has_no_meaning_here_says_so_in_one_sentence(program: Program, module: str, call: str) -> None:
    told = program(f"import warnings; warnings.simplefilter('ignore')\nimport {module}\n{call}\n", fails=True)
    (last,) = [line for line in told.splitlines() if "HTCondorException: " in line]
    assert "has no meaning in a fetchwork queue: " in last


@pytest.mark.parametrize("module", ["htcondor2", "htcondor"])
def test_priorities_and_tokens_are_those_of_the_queue(program: Program, module: str) -> None:
    begin = f"{PREAMBLE}import warnings; warnings.simplefilter('ignore')\nimport {module} as bindings\n"
    described = "executable = /bin/true\\ntransfer_executable = false"
    told = program(
        f"{begin}bindings.Schedd().submit(bindings.Submit('{described}'))\n"
        "print([ad['Name'] for ad in bindings.Negotiator().getPriorities()])\n"
        "bindings.Credd().delete_user_service_cred(bindings.CredTypes.OAuth, 'box')\n"
    )
    assert told == "['nobody']\n"
    add = "bindings.Credd().add_user_service_cred(bindings.CredTypes.OAuth, b'token', 'box')\n"
    assert "this pool takes no credentials" in program(begin + add, fails=True).splitlines()[-1]


@pytest.mark.parametrize("environment", ["database"], indirect=True)
def test_a_factor_is_set_and_methods_have_htcondor_s_parameters(program: Program) -> None:
    told = program(
        "import inspect, htcondor2\n"
        "htcondor2.Negotiator().setFactor('carol@vm', 20)\n"
        "print([(ad['Name'], ad['PriorityFactor']) for ad in htcondor2.Negotiator().getPriorities()])\n"
        "print(*inspect.signature(htcondor2.Schedd.unexport_jobs).parameters)\n"
    )
    assert told == "[('carol', 20.0)]\nself job_spec\n"


@pytest.mark.parametrize("environment", ["database"], indirect=True)
def test_all_names_of_htcondor_s_modules_are_there(program: Program) -> None:
    quiet = "import sys, warnings; warnings.simplefilter('ignore')"
    without = "sys.path[:] = [p for p in sys.path if not p.endswith('modules')]"
    for module in ("htcondor2", "htcondor"):
        names = f"import {module}; print(*(n for n in dir({module}) if n[0] != '_'))"
        over = set(program(f"{quiet}\n{names}").split())
        assert set(program(f"{quiet}\n{without}\n{names}").split()) <= over


@pytest.mark.parametrize("module", ["htcondor2", "htcondor"])
@pytest.mark.parametrize("environment", ["database"], indirect=True)
def test_a_personal_pool_is_one_with_a_queue(program: Program, module: str) -> None:
    quiet = "import warnings; warnings.simplefilter('ignore')"
    told = program(f"{quiet}\nfrom {module}.personal import PersonalPool\nprint(PersonalPool.__module__)")
    assert told == "fetchwork.personal\n"


def test_an_event_log_is_read_as_the_program_asks(
    program: Program, slots: DirectQueue, tmp_path: object
) -> None:
    text = (
        PREAMBLE
        + """
import os, tempfile, htcondor2
directory = tempfile.mkdtemp()
os.chmod(directory, 0o777)
log = os.path.join(directory, "a.log")
submit = htcondor2.Submit(f"executable = /bin/true\\ntransfer_executable = false\\nlog = {log}")
schedd = htcondor2.Schedd()
cluster = schedd.submit(submit, count=2).cluster()
schedd.act(htcondor2.JobAction.Remove, f"ClusterId == {cluster}")
seen = []
for event in htcondor2.JobEventLog(log).events(stop_after=120):
    seen.append((event.proc, event.type))
    if len(seen) == 4:
        break
assert sorted(seen) == [(0, 0), (0, 9), (1, 0), (1, 9)], seen
print("done")
"""
    )
    assert program(text) == "done\n"


def test_a_dag_is_described_by_htcondors_own_and_is_a_job_where_there_is_an_access_point(
    program: Program, environment: dict[str, str], tmp_path: Path
) -> None:
    # HTCondor's code searches the directory of its program
    (tmp_path / "condor_dagman").write_text("#!/bin/sh\n")
    (tmp_path / "condor_dagman").chmod(0o755)
    text = (
        PREAMBLE
        + f"import os\nos.environ['PATH'] = '{tmp_path}:' + os.environ['PATH']\n"
        + """
import tempfile, htcondor2
os.chdir(tempfile.mkdtemp(dir="/tmp"))
os.chmod(".", 0o777)
with open("a.sub", "w") as file:
    file.write("executable = /bin/true\\nqueue\\n")
with open("a.dag", "w") as file:
    file.write("JOB A a.sub\\n")
submit = htcondor2.Submit.from_dag("a.dag", {"maxidle": 5})
assert submit["universe"] == "scheduler" and submit["executable"].endswith("/condor_dagman"), dict(submit)
try:
    cluster = htcondor2.Schedd().submit(submit).cluster()
except htcondor2.HTCondorException as problem:
    print(problem)
else:
    (ad,) = htcondor2.Schedd().query(f"ClusterId == {cluster}", ["JobUniverse"])
    print(ad["JobUniverse"])
"""
    )
    said = program(text)
    if "FETCHWORK_ACCESS_POINT" in environment:
        assert said == "7\n"
    else:
        assert said.count("\n") == 1 and "access point" in said, said
