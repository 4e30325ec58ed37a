"""Compares the answers of a schedd and of the queue to the same steps (``fidelity_steps``)."""

import json
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.dag.sides import Queue, Schedd, Side

PROGRAM = Path(__file__).with_name("fidelity_steps.py")
#: the Python whose bindings are those of the pool's HTCondor
PYTHON = "/usr/bin/python3"

#: texts that must differ, their replacement, and the reason
TEXTS = (
    (r"<[^<> ]*:\d+[^<> ]*>", "<ADDRESS>", "each daemon has an address of its own"),
    (
        r"\b\d\d/\d\d(/\d\d)? \d\d:\d\d(:\d\d)?\b|\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\b",
        "TIME",
        "of the clock",
    ),
    (r"\b(?<![.\d])1[6-9]\d{8}\b", "SECONDS", "of the clock"),
    (r"\b\d\+\d\d:\d\d:\d\d\b", "DURATION", "of the clock"),
    (r"-- Schedd: \S+ : \S+ @ TIME", "-- Schedd: NAME", "each has a name of its own"),
    (r"/tmp/alice\d+", "FOLDER", "each runs in a folder of its own"),
    (
        r"\(versionGE\(split\(TARGET.CondorVersion\)[^|]*\|\| (\(TARGET.Disk >= RequestDisk\))\)",
        r"\1",
        "of the version whose code reads descriptions",
    ),
)
#: attributes whose values must differ, and the reason
ATTRIBUTES = {
    "GlobalJobId": "has the name of the schedd and the time",
    "QDate": "of the clock",
    "EnteredCurrentStatus": "of the clock",
    "ServerTime": "of the clock",
    "AutoClusterId": "each numbers its own",
    "TotalJobAds": "a schedd counts its jobs only now and then",
}


class Alices(Schedd):
    """The schedd, for the account whose jobs are in the queue: widths of columns depend on names."""

    user = "alice"


#: a pattern of the step's kind and text, and the reason in DIFFERENCES.md; the first that fits counts
REASONS = (
    (
        r"^act: the jobs after|^act: Hold 'A.0' 5",
        "25.14's bindings lose a reason that is given without a subcode",
    ),
    (r"-help|-none-such|condor_(hold|rm)$|condor_qedit( C.0( Mine)?)?$", "a command's usage is one line"),
    (r"-version", "condor_submit and condor_q name their own package"),
    (r"-userlog|-unmatchable|-epochs|-spool", "this option is refused by name"),
    (r"-(name|pool) none-such", "-name and -pool are ignored: there is one queue"),
    (r"condor_submit: .*(-queue|wrong.sub)", "condor_submit finds one error where HTCondor prints two"),
    (
        r"condor_submit: .*grep -c",
        "older bindings of the access point read descriptions, and write fewer defaults",
    ),
    (
        r"condor_submit: ",
        "no hint at condor_watch_q: programs take text on stderr for a failure",
    ),
    (r"-constraint false", "25.14 takes the constraint `false` for none"),
    (
        r"condor_q: .*'ClusterId =='",
        "a constraint that is no expression is refused before the queue is asked",
    ),
    (r"-submitter none_such", "a name that has submitted nothing has no jobs, and is no error"),
    (r"-better-analyze", "-better-analyze asks the queue, and prints its own analysis"),
    (r"-jsonl", "arguments of another type are an error, or taken for what they say"),
    (r"condor_rm -long", "an action prints no ad of its result"),
    (r"surface: Schedd", "a method takes more than HTCondor's, or has a default"),
    (r"surface: RemoteParam", "RemoteParam is no mapping: there is no daemon to ask"),
    (r"query: None", "`None` as a constraint selects all jobs"),
    (r"query: .*ServerTime > 0", "ServerTime can stand in a constraint, too"),
    (r"\['procid'\]|RunInstanceId", "a projection gives attributes their own spelling"),
    (
        r"SummaryOnly",
        "a summary counts all jobs: a limit is not for it",
    ),
    (r"Negotiator\(\)", "a method that means nothing here says so before it looks at its arguments"),
    (r"User", "the domain of User is the database, not UID_DOMAIN"),
    (r"ExitStatus", "ExitStatus is ExitCode"),
    (r"ImageSize", "ImageSize is 0 until the host has measured a run"),
    (
        r"submit: the attribute (Disk|ExecutableSize|RequestDisk)|RequestDisk",
        "DiskUsage includes input files, and RequestDisk is DiskUsage by default",
    ),
    (
        r"submit: a job's attr|submit: the attribute|query: sorted|history: sorted|Requirements'\]"
        r"|TerminationPending|StartdPrincipal|\['NumHolds'\]|projection \[''\]",
        "no version of a schedd made the ad, no negotiator or shadow adds to it; failed runs are counted",
    ),
    (
        r"submit: (notif|email|keep_claim|job_lease)",
        "nothing is mailed, no claim is kept, leases are the queue's: no attribute says so",
    ),
    (
        r"submit: (accounting_group|use_oauth)",
        "groups have to be granted, and credentials to be stored, before a job names them",
    ),
    (r"submit: should_transfer_files = NO", "no file system domain is required of hosts"),
    (
        r"submit: transfer_input",
        "DiskUsage includes input files, and RequestDisk is DiskUsage by default",
    ),
    (r"submit: container_image", "images travel with a job's input files"),
    (r"submit: (deferral|cron)", "deferral times are the queue's, which computes the next one at submit"),
    (r"submit: .*INT", "a macro that ends HTCondor's own code ends the submission"),
    (
        r"submit: (output|error|max_retries|retry_until|success_exit|hold|request_memory)",
        "older bindings of the access point read descriptions, and write fewer defaults",
    ),
    (r"submit: ", "a request that fetched work can't honour is refused by name, with the reason"),
    (r"edit: Mine = ", "a value that is no expression is refused, and not taken for undefined"),
    (
        r"edit: \w+ = ",
        "an attribute that the queue keeps, or that has a type there, is not edited to another",
    ),
    (r"event log: .event.type", "a job that is submitted on hold has a JOB_HELD event"),
    (r"event log: ", "the end of a job has no attributes that only a shadow knows"),
    (
        r"(query|edit|history|other|act): ",
        "arguments of another type are an error, or taken for what they say",
    ),
)


def reason(step: "Compared") -> str:
    """The reason why the answers to a step differ."""
    text = f"{step.kind}: {step.step}"
    return next((why for pattern, why in REASONS if re.search(pattern, text)), "no reason is known")


@dataclass(frozen=True)
class Compared:
    """One step: the schedd's answer, and the queue's."""

    kind: str
    step: str
    theirs: Any
    ours: Any

    @property
    def identical(self) -> bool:
        if isinstance(self.theirs, dict) and "raises" in self.theirs:
            # a program that catches theirs catches ours
            return isinstance(self.ours, dict) and self.theirs["raises"][0] in self.ours.get("raises", ())
        return normal(self.theirs) == normal(self.ours)


def normal(answer: Any) -> str:
    """An answer as text, without what must differ."""
    text = json.dumps(_without(answer))
    for pattern, replacement, _ in TEXTS:
        text = re.sub(pattern, replacement, text)
    clusters: dict[str, str] = {}
    return re.sub(r"\b7\d{3}\b", lambda found: clusters.setdefault(found[0], f"C{len(clusters)}"), text)


def _without(answer: Any) -> Any:
    if isinstance(answer, dict):
        kept = {name: value for name, value in answer.items() if not _is_left_out(name)}
        return {name: _without(value) for name, value in kept.items()}
    if isinstance(answer, list):
        return [_without(one) for one in answer if not (isinstance(one, str) and _is_left_out(one))]
    return answer


def _is_left_out(name: str) -> bool:
    # HTCondor knows nothing of attributes that fetchwork adds
    return name in ATTRIBUTES or name.startswith("FetchWork")


def compared(queue: Queue, schedd: Side, share: int = 1) -> list[Compared]:
    """Run every so many of the steps on both, at once."""
    # as the schedd's numbers begin
    queue.rows("SELECT setval('fetchwork.cluster_id', 7000)::text")
    with ThreadPoolExecutor() as both:
        theirs, ours = both.map(lambda side: list(_answers(side, share)), (schedd, queue))
    assert [one[:2] for one in theirs] == [one[:2] for one in ours]
    return [
        Compared(kind, step, one, other[2]) for (kind, step, one), other in zip(theirs, ours, strict=True)
    ]


def _answers(side: Side, share: int) -> Iterator[list[Any]]:
    folder = side.write("")
    shutil.copy(PROGRAM, folder)
    words = [PYTHON, "-W", "ignore", PROGRAM.name, str(share)]
    if isinstance(side, Queue):
        python = str(side.pool.machine.venv / "bin/python")
        words = [python, "-m", "fetchwork", "env", "--", "env", "-u", "XDG_DATA_HOME", *words]
        ended = side.run(folder, *words, PYTHONPATH="/opt/fetchwork/src")
    else:
        ended = side.run(folder, *words)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    yield from json.loads((folder / "answers.json").read_text())
