"""Asks a real schedd or fetchwork the questions of programs: `python beside_schedd.py MODULE QUESTION`.

MODULE is ``htcondor2`` or ``fetchwork``; the answer is JSON. It runs by itself, in a place where no module of
these tests can be imported.
"""

import importlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

PATIENCE_S = 120
JOB = """
executable = /bin/true
initialdir = /tmp
transfer_executable = false
should_transfer_files = IF_NEEDED
"""

# A is a cluster of four jobs that stay Idle, B one of two; a number alone is the cluster's as an int
ACTS_AND_EDITS: list[tuple[str, Any]] = [
    ("Hold", "A.0"),
    ("Hold", "A.0"),
    ("Hold", ["A.0", "A.1"]),
    ("Hold", ["A.0", "A.1", "A.2", "A.99"]),
    ("Release", ("A",)),
    ("Release", ("A",)),
    ("Release", "A.0"),
    ("Release", ["A.0", "A.0"]),
    ("Hold", "ClusterId == A && ProcId < 2"),
    ("Hold", "ClusterId == A && ProcId < 2"),
    ("Hold", "A"),
    ("Release", "ClusterId == A"),
    ("Release", "ClusterId == A"),
    ("Vacate", "A.0"),
    ("VacateFast", "A.0"),
    ("Vacate", "ClusterId == A"),
    ("Suspend", "A.0"),
    ("Continue", "A.0"),
    ("RemoveX", "A.0"),
    ("RemoveX", "ClusterId == A"),
    ("Hold", []),
    ("Hold", ""),
    ("Hold", "  "),
    ("Hold", "ClusterId =="),
    ("Hold", 7.5),
    ("Hold", ["a", "b"]),
    ("Hold", "ClusterId == A && ProcId == 99"),
    ("edit 1", "A.0"),
    ("edit 2", ["A.0", "A.1"]),
    ("edit 3", ("A",)),
    ("edit 4", "ClusterId == A && Mine == 3"),
    ("edit 5", []),
    ("edit 5", ""),
    ("edit 6", "ClusterId == A && Mine == 3"),
    ("edit 6", 7.5),
    ("edit 6", ["a", "b"]),
    ("edit 6", "a!b"),
    ("Remove", "A.0"),
    ("Remove", "A.0"),
    ("Remove", ["A.1", "A.1"]),
    ("Remove", "ClusterId == A"),
    ("Remove", ("B",)),
]


def outcome(bindings: Any, function: Callable[..., Any], *arguments: object) -> object:
    """The result of a call, or the name of an exception that a program could catch."""
    try:
        result = function(*arguments)
    except ValueError:
        return "ValueError"
    except TypeError:
        return "TypeError"
    except bindings.HTCondorException:
        return "HTCondorException"
    if not hasattr(result, "keys"):
        return result
    # a schedd counts all jobs only now and then
    return {name: result[name] for name in sorted(set(result.keys()) - {"TotalJobAds"})}


def acts_and_edits(bindings: Any, schedd: Any) -> list[object]:
    """The answers of act and edit."""
    idle = f"{JOB}requirements = false\n"
    clusters = {name: schedd.submit(bindings.Submit(idle), n).cluster() for name, n in (("A", 4), ("B", 2))}

    def meant(spec: Any) -> Any:
        if isinstance(spec, tuple):
            return clusters[spec[0]]
        if isinstance(spec, list):
            return [meant(item) for item in spec]
        return spec if isinstance(spec, float) else re.sub(r"\bA\b", str(clusters["A"]), spec)

    answers: list[object] = []
    for what, spec in ACTS_AND_EDITS:
        if what.startswith("edit"):
            answer = outcome(bindings, schedd.edit, meant(spec), "Mine", what.removeprefix("edit "))
        else:
            answer = outcome(bindings, schedd.act, getattr(bindings.JobAction, what), meant(spec))
            # a schedd answers before removed jobs have left its queue
            end = time.monotonic() + PATIENCE_S
            while schedd.query("JobStatus == 3", ["ProcId"]) and time.monotonic() < end:
                time.sleep(0.05)
        answers.append([what, spec, answer])
    return answers


def requirements(bindings: Any, schedd: Any) -> dict[str, bool]:
    """The expressions, from the standard input, that let a job run as its Requirements.

    Waits for all that do not say "never".
    """
    clusters: dict[str, int] = {}
    for expression in json.load(sys.stdin):
        result = schedd.submit(bindings.Submit(f"{JOB}requirements = {expression}\n"))
        clusters[expression] = result.cluster()
    idle = {cluster for expression, cluster in clusters.items() if "never" in expression}
    end = time.monotonic() + PATIENCE_S
    waiting: set[int] = set(clusters.values())
    while time.monotonic() < end and not waiting <= idle:
        waiting = {ad["ClusterId"] for ad in schedd.query(projection=["ClusterId"])}
        time.sleep(0.2)
    schedd.act(bindings.JobAction.Remove, "true")
    return {expression: cluster not in waiting for expression, cluster in clusters.items()}


ITEMS = "(\n a, 1\n b, 2\n c, 3\n)"
SHOWN = "arguments = $(ProcId) $(step) $(item) $(extra)\n"
# the text after the description, setQArgs, and the arguments of submit
SUBMITS: list[tuple[str, str | None, dict[str, Any]]] = [
    ("", None, {}),
    ("queue", None, {}),
    ("", "", {}),
    ("", None, {"count": 1}),
    ("queue 2", None, {}),
    ("", None, {"count": 2}),
    ("queue 3", None, {"count": 2}),
    ("", "2", {}),
    ("queue 3", "2", {}),
    ("", f"2 from {ITEMS}", {}),
    (f"queue 2 from {ITEMS}", None, {}),
    ("", f"2 extra from {ITEMS}", {}),
    (f"queue 2 extra from {ITEMS}", None, {}),
    (f"queue 2 item,extra from {ITEMS}", None, {}),
    (f"queue item,extra from [1:] {ITEMS}", None, {}),
    (f"queue 2 item,extra from [::2] {ITEMS}", None, {}),
    ("", f"2 item,extra from [::2] {ITEMS}", {}),
    ("queue item in (a b c)", None, {}),
    ("queue 2 item in [1:] (a b c)", None, {}),
    ("queue item in (a b c)", None, {"count": 2}),
    ("", "2 item in (a b c)", {}),
    ("queue item matching files /etc/host*s", None, {}),
    ("queue item matching files /etc/host*s", None, {"count": 2}),
    ("queue item matching dirs /usr/l*b", None, {}),
    ("queue 2 item from [1:] FILE", None, {}),
    ("queue item from FILE", None, {"count": 2}),
    ("queue 3", None, {"itemdata": ["x", "y"]}),
    ("queue 3 item in (a b)", None, {"itemdata": ["x", "y"], "count": 2}),
    ("", "2 item in (a b)", {"itemdata": [{"item": "x", "extra": "1"}, {"item": "y", "extra": "2"}]}),
    ("", None, {"itemdata": [{"item": "x y", "extra": "1,2"}]}),
    ("queue 2", None, {"queue": "3"}),
    ("", None, {"queue": "item in (a b)"}),
]


def submits(bindings: Any, schedd: Any) -> list[object]:
    """The arguments of the jobs that each way to submit a description makes.

    The standard input names a file with the items x and y.
    """
    answers: list[object] = []
    items = json.load(sys.stdin)
    for text, queue, arguments in SUBMITS:
        whole = f"{JOB}{SHOWN}requirements = false\n{text}\n"
        description = bindings.Submit(whole.replace("FILE", items))
        if queue is not None:
            description.setQArgs(queue)

        def put(description: Any = description, arguments: dict[str, Any] = arguments) -> list[object]:
            data = arguments.get("itemdata")
            items = {} if data is None else {"itemdata": iter(data)}
            result = schedd.submit(description, **{**arguments, **items})
            jobs = schedd.query(f"ClusterId == {result.cluster()}", ["ProcId", "Args"])
            made = [job.get("Args") for job in sorted(jobs, key=lambda job: int(job["ProcId"]))]
            return [result.num_procs(), result.first_proc(), *made]

        answers.append([text, queue, str(arguments.keys()), outcome(bindings, put)])
    schedd.act(bindings.JobAction.Remove, "true")
    return answers


def _with(ads: list[Any], name: str) -> list[Any]:
    """The ads that have an attribute."""
    return [ad for ad in ads if name in str(ad)]


def ads(bindings: Any, schedd: Any) -> dict[str, dict[str, str]]:
    """The attributes of each sort of ad, and their values as text."""
    opts = bindings.QueryOpts
    idle = f"{JOB}requirements = Mine == 2\nlog = /tmp/log\n+Mine = 1\n"
    result = schedd.submit(bindings.Submit(idle), 2)
    mine = f"ClusterId == {result.cluster()}"
    # until the schedd has learned the significant attributes and made its autoclusters anew
    end = time.monotonic() + PATIENCE_S
    while not (clusters := _with(schedd.query(opts=opts.AutoCluster), "Mine")) and time.monotonic() < end:
        time.sleep(0.2)
    found = {
        "cluster": [result.clusterad()],
        "of cluster": schedd.query(mine, opts=opts.IncludeClusterAd),
        "idle": schedd.query(mine),
        "summary": schedd.query("true", opts=opts.SummaryOnly),
        "autocluster": clusters,
        "group": [ad for ad in schedd.query("true", ["Owner", "Mine"], opts=opts.GroupBy) if "Mine" in ad],
    }
    schedd.act(bindings.JobAction.Hold, "true", "look")
    schedd.act(bindings.JobAction.Release, f"{result.cluster()}.0", "looked")
    found["released"] = schedd.query(f"{mine} && ProcId == 0")
    found["held"] = schedd.query(f"{mine} && ProcId == 1")
    schedd.act(bindings.JobAction.Remove, "true")
    runs = schedd.submit(bindings.Submit(JOB)).cluster()
    end = time.monotonic() + PATIENCE_S
    while not (ended := schedd.history(f"ClusterId == {runs}")) and time.monotonic() < end:
        time.sleep(0.2)
    found["completed"] = ended
    found["removed"] = schedd.history(mine)
    found["epoch"] = schedd.jobEpochHistory(f"ClusterId == {runs}")
    return {
        sort: {name: str(value) for name, value in some[0].items()} for sort, some in found.items() if some
    }


def idle(bindings: Any, schedd: Any) -> int:
    """A cluster of three jobs that no slot takes."""
    return int(schedd.submit(bindings.Submit(f"{JOB}+Mine = 9\nrequirements = false\n"), count=3).cluster())


def states(bindings: Any, schedd: Any) -> list[list[object]]:
    """The jobs of that cluster."""
    found = schedd.query("Mine == 9", ["ProcId", "JobStatus", "Owner"])
    return sorted([ad["ProcId"], ad["JobStatus"], ad["Owner"]] for ad in found)


def xml_log(bindings: Any, schedd: Any) -> dict[str, object]:
    """The log, with log_xml, of a job that fails and of a job that is held, released and removed."""
    folder = tempfile.mkdtemp()
    path = f"{folder}/job.log"
    described = JOB.replace("/bin/true", "/bin/false") + f"log = {path}\nlog_xml = true\n"
    ends = schedd.submit(bindings.Submit(described)).cluster()
    never = schedd.submit(bindings.Submit(f"{described}requirements = false\n")).cluster()
    actions = {bindings.JobAction.Hold: 12, bindings.JobAction.Release: 13, bindings.JobAction.Remove: 9}
    end = time.monotonic() + PATIENCE_S
    for action, number in actions.items():
        schedd.act(action, f"{never}.0", "look")
        # a schedd answers first, and does not write the hold of a job that is released by then
        while sys.argv[1] != "fetchwork" and time.monotonic() < end:
            if f'"EventTypeNumber"><i>{number}</i>' in pathlib.Path(path).read_text():
                break
            time.sleep(0.05)
    if sys.argv[1] == "fetchwork":
        # the events that an access point writes
        # not at the top: HTCondor's own Python has no fetchwork
        from fetchwork.queue import Queue

        events = Queue().events(stop_after=PATIENCE_S)
        text, left = "", {ends, never}
        for event in events:
            if event.cluster in (ends, never):
                text += event.entry(xml=True)
                if event.type in (bindings.JobEventType.JOB_TERMINATED, bindings.JobEventType.JOB_ABORTED):
                    left.discard(event.cluster)
            if not left:
                break
        pathlib.Path(path).write_text(text)
    import htcondor2

    read: dict[int, list[str]] = {ends: [], never: []}
    end = time.monotonic() + PATIENCE_S
    with htcondor2.JobEventLog(path) as log:
        while time.monotonic() < end:
            for event in log.events(stop_after=1):
                read[event.cluster].append(event.type.name)
            if "JOB_TERMINATED" in read[ends] and "JOB_ABORTED" in read[never]:
                break
    return {"text": pathlib.Path(path).read_text(), "read": [read[ends], read[never]]}


def _in_queue(schedd: Any, clusters: dict[str, int]) -> dict[str, int]:
    """By job ('A.0'): its JobStatus."""
    named = {number: name for name, number in clusters.items()}
    found = schedd.query(f"ClusterId >= {min(named)}", ["ClusterId", "ProcId", "JobStatus"])
    return {f"{named[ad['ClusterId']]}.{ad['ProcId']}": ad["JobStatus"] for ad in found}


# they need no slot, and go on when they are vacated
IDLE_OR_RUNNING = """
universe = scheduler
executable = /usr/bin/env
arguments = --ignore-signal=TERM sleep 600
remove_kill_sig = SIGKILL
initialdir = /tmp
requirements = ProcId == 1
"""


def _jobs_to_act_on(bindings: Any, schedd: Any, running: bool) -> dict[str, int]:
    """A, a cluster of three jobs, and B, of two: the first of each is Held, the second perhaps Running."""
    described = f"{JOB}requirements = false\n"
    if running:
        # a job in this universe needs no slot
        described = IDLE_OR_RUNNING
    clusters = {
        name: schedd.submit(bindings.Submit(described), n).cluster() for name, n in (("A", 3), ("B", 2))
    }
    schedd.act(bindings.JobAction.Hold, [f"{cluster}.0" for cluster in clusters.values()])
    end = time.monotonic() + PATIENCE_S
    while running and time.monotonic() < end:
        schedd.reschedule()
        status = _in_queue(schedd, clusters)
        if status["A.1"] == status["B.1"] == 2:
            break
        time.sleep(0.05)
    return clusters


def selectors(bindings: Any, schedd: Any) -> list[object]:
    """HTCondor's commands on such jobs: exit status, output, and the jobs that were changed.

    The standard input has their words; A and B in these are the clusters, ME is the account.
    """
    # a word's plain number belongs to no cluster
    schedd.submit(bindings.Submit(f"{JOB}requirements = false\n"))
    clusters: dict[str, int] = {}
    answers: list[object] = []
    for words in json.load(sys.stdin):
        vacates = words[0] == "condor_vacate_job"

        def run(clusters: dict[str, int], *more: str, words: list[str] = words) -> Any:
            meant = [
                re.sub(r"\b[AB]\b", lambda found: str(clusters[found[0]]), word).replace("ME", "bob")
                for word in words[1:]
            ]
            # -long lists no jobs of totals
            meant = [word for word in meant if not more or word != "-totals"]
            line = [f"/usr/bin/{words[0]}", *more, *meant]
            return subprocess.run(line, capture_output=True, text=True, check=False)

        if not (vacates and answers):
            schedd.act(bindings.JobAction.Remove, "true")
            clusters = _jobs_to_act_on(bindings, schedd, vacates)
        before = _in_queue(schedd, clusters)
        ended = run(clusters)
        end = time.monotonic() + PATIENCE_S
        while "no jobs in the queue" in ended.stderr and time.monotonic() < end:
            # a schedd counts its jobs now and then
            ended = run(clusters)
        after = _in_queue(schedd, clusters)
        if vacates:
            # it changes no state
            told = run(clusters, "-long").stdout
            names = {str(number): name for name, number in clusters.items()}
            acted = [f"{names[c]}.{p}" for c, p in re.findall(r"^job_(\d+)_(\d+) = 1$", told, re.M)]
        else:
            acted = [job for job in before if after.get(job, 3) != before[job]]
        texts = [ended.stdout, ended.stderr.partition("Usage:")[0]]
        for name, number in clusters.items():
            texts = [re.sub(rf"(?<![.\d]){number}(?!\d)", name, text) for text in texts]
        answers.append([ended.returncode, *(text.replace("bob", "ME") for text in texts), sorted(set(acted))])
    return answers


if __name__ == "__main__":
    module = importlib.import_module("htcondor2")
    print(json.dumps(globals()[sys.argv[2]](module, module.Schedd())))
