"""The effect of each submit command of HTCondor's manual, found out by submitting it.

``fetchwork/condor/SUBMIT_COMMANDS.md`` is this table; a test compares the two. To write it anew, run
``FETCHWORK_WRITE_TABLE=1 .venv/bin/pytest tests/commands/test_submit_table.py``.
"""

import re
from pathlib import Path
from typing import Literal, NamedTuple

from fetchwork.condor import texts
from fetchwork.errors import FetchworkError
from fetchwork.queue.session import Session
from fetchwork.queue.submitting import submission

COMMANDS = Path(__file__).parents[1] / "data/jobs/submit_commands.txt"
DOCUMENT = Path(__file__).parents[2] / "fetchwork/condor/SUBMIT_COMMANDS.md"

#: prefixes of other universes' commands; they have no effect on a vanilla job, and ``universe`` is refused
_OF_UNIVERSES = (
    *(
        "arc_",
        "aws_",
        "azure_",
        "batch_extra",
        "batch_project",
        "batch_queue",
        "batch_runtime",
        "cloud_label",
    ),
    "ec2_", "gce_", "grid_", "gs_", "jar_", "java_", "s3_", "vm_", "xen_", "delegate_", "rendezvousdir",
)  # fmt: skip

#: also for other universes; in a vanilla job the key of its s3:// and gs:// URLs (tests/queue/test_files.py)
_KEYS = {
    f"{prefix}_{name}": f"`{attribute}`, for the job's `s3://` and `gs://` URLs"
    for prefix in ("aws", "gs", "s3")
    for name, attribute in (
        ("access_key_id_file", "EC2AccessKeyId"),
        ("secret_access_key_file", "EC2SecretAccessKey"),
        ("region", "AWSRegion"),
    )
}

#: HTCondor's own submit reads these on the way to other commands, so no ad has an attribute of their name
_READ = {
    "queue": "makes the jobs",
    "executable": "`Cmd`",
    "universe": "vanilla jobs",
    "max_idle": "of a late cluster: see above",
    "max_materialize": "of a late cluster: see above",
}

ALSO = """
Commands of HTCondor's that are refused by name:

| command | why |
|---|---|
"""

HEAD = """\
# Submit commands

The effect of each command of a submit description. This table is made by submitting each command
(`tests/commands/submit_table.py`), and each run of the tests compares it with the code.

- **honoured**: the command has its effect on the job.
- **hint**: accepted and ignored: it asks a schedd, a shadow or a mail program for something that changes
  neither the job's result nor its host.
- **refused**: at submit, by name, with the reason, unless its value asks for nothing.

HTCondor adds `TARGET.FileSystemDomain == MY.FileSystemDomain` to the requirements of a job without file
transfer. Here a domain counts only if the description names one (`+FileSystemDomain = "..."`): hosts that
fetch work are seldom of the submitting machine's domain.

`$$(Attr)`, `$$([expression])` and `$$(Attr:default)` in any attribute are replaced from the slot's ad when a
slot gets the job, and recorded in `MATCH_Attr` and `MATCH_EXP_Attr`, as a schedd does. If a value is missing
the job is held. Files that are stored at submit can't have such names.

A job with `deferral_time` is offered `deferral_prep_time` and the setting `schedd_interval` (60 s)
before, and its starter waits. For `rm`, `hold` and `vacate` the agent ends the waiting job at once. If the
agent may not signal jobs (OPERATIONS.md), the job ends when its time has come, because no hook runs while it
waits. A job that comes too late is held, code 20. `cron_*` is in the time zone of the submitting database
session (`PGTZ`, or the server's), or in that of `+FetchWorkTimeZone = "Europe/Berlin"`. As with a schedd the
job leaves the queue after its first run unless `on_exit_remove` says otherwise. One thing differs: for a
schedule of weekdays alone, a schedd also takes the last day of a month if the next such day lies in the next
month. A schedule that never comes is refused.

Jobs that are submitted with a W3C traceparent in the variable TRACEPARENT have it as `TraceParent`, unless
they have one of their own (`+TraceParent = "00-..."`). A malformed variable is ignored, and a malformed
attribute refused. `fetchwork exporter --otlp` sends the spans of such jobs (docs/howto/monitoring.md).

A job that has ended stays in the queue as Completed while its `leave_in_queue` is true, which agents find
out once a minute, and for the setting `left_days` (10) at most. condor_rm takes it out at once, and it is in
history from then on. A job that is removed before its end leaves in any case.

With `max_materialize`, `max_idle` or `condor_submit -factory` a cluster is late: it is one row, of which the
database makes jobs as others start or end. At most `max_materialize` of its jobs are in the queue, and at
most `max_idle` of these do not run; Held ones count. So a cluster of 10 000 000 jobs is submitted in less
than a second, and `max_jobs_per_submission` limits only the jobs that it has in the queue. `$(Process)`,
`$(Step)`, `$(ItemIndex)`, `$(Row)`, `$(Item)` and the variables of the queue statement may stand in values.
A macro function of one of these (`$INT(Process)`), a condition on one, and `$RANDOM_CHOICE()` are refused by
name, and so are different input files for its jobs, unless execute hosts share them. If the cluster or its
owner is named, condor_rm, condor_hold, condor_release and condor_qedit also apply to the jobs that are not
made yet. `condor_qedit CLUSTER JobMaterializeLimit 500` and `JobMaterializeMaxIdle` change the limits, and
`condor_q -factory` shows the clusters. If its owner may have no more jobs, or the queue drains, they are made
later.

| command | effect | attributes, or reason |
|---|---|---|
"""


class Command(NamedTuple):
    """A row of the table."""

    name: str
    becomes: Literal["honoured", "hint", "refused"]
    why: str


def samples() -> list[tuple[str, str]]:
    """The commands, each with a value."""
    lines = COMMANDS.read_text().splitlines()[1:]
    return [(name, value) for name, _, value in (line.partition(" = ") for line in lines)]


def what_becomes_of(session: Session, name: str, value: str) -> Command:
    """Submit the command, and inspect the job."""
    if name == "queue":
        return Command(name, "honoured", _READ[name])
    if name in _KEYS:
        return Command(name, "honoured", _KEYS[name])
    if name.lower().startswith(_OF_UNIVERSES):
        return Command(name, "refused", "of a universe that is refused: fetched jobs are vanilla jobs")
    try:
        context = next((lines for begin, lines in _CONTEXT.items() if name.startswith(begin)), "")
        plain = _stored(session, context)
        with_it = _stored(session, f"{context}{name} = {value}\n")
    except FetchworkError as problem:
        return Command(name, "refused", _reason(str(problem)))
    changed = sorted(
        key
        for key in plain.keys() | with_it.keys()
        if plain.get(key) != with_it.get(key) and key not in _CHANGING
    )
    if name in _READ:
        return Command(name, "honoured", _READ[name])
    if changed and name not in HINTS:
        return Command(name, "honoured", ", ".join(f"`{key}`" for key in changed))
    return Command(name, "hint", HINTS.get(name, ""))


#: commands that have a meaning only beside others
_CONTEXT = {
    "gpus_m": "request_gpus = 1\n",
    "require_gpus": "request_gpus = 1\n",
    "cron_w": "cron_minute = 5\n",
    "cron_p": "cron_minute = 5\n",
    "transfer_input": "input = /etc/hostname\n",
    "transfer_output": "output = /tmp/out\nshould_transfer_files = YES\n",
    "transfer_error": "error = /tmp/err\n",
    "when_to_transfer_output": "should_transfer_files = YES\n",
    "deferral_w": "deferral_time = 1800000000\n",
    "deferral_p": "deferral_time = 1800000000\n",
    "container_service": "container_image = x.sif\n",
}

#: attributes that differ in each submission
_CHANGING = frozenset(
    {"AutoClusterId", "ClusterId", "GlobalJobId", "QDate", "EnteredCurrentStatus", "ServerTime", "RunId"}
)

#: the reason why ignoring a command does no harm
HINTS = {
    "copy_to_spool": "the executable is that of the path; nothing is spooled",
    "dagman_log": "DAGMan says it of its own jobs; no other program reads it",
    "email_attributes": "nothing is mailed; follow the events",
    "image_size": "measured when the job runs",
    "job_lease_duration": "the agent's lease is the database's setting",
    "job_machine_attrs_history_length": "of job_machine_attrs, which is refused",
    "keep_claim_idle": "there is no schedd that would keep a claim",
    "match_list_length": "the matches of a job are its runs",
    "noop_job_exit_code": "of noop_job, which is refused",
    "noop_job_exit_signal": "of noop_job, which is refused",
    "notification": "nothing is mailed; follow the events",
    "notify_user": "nothing is mailed; follow the events",
    "skip_filechecks": "input files that are stored are read at submit, others are not looked at",
    "stack_size": "of the standard universe, which HTCondor has no more",
    "stream_error": "the job writes to the file itself",
    "stream_input": "the job reads the file itself",
    "stream_output": "the job writes to the file itself",
    "submit_event_notes_attrs": "the submit event has what submit_event_notes says",
}


def _stored(session: Session, line: str) -> dict[str, object]:
    """The job that a description with the line makes, as stored in the queue."""
    executable = "" if line.startswith("executable") else "executable = /bin/true\n"
    made = submission.put(session.database, f"{executable}{line}queue\n", owner="alice")
    (job,) = session.items("jobs", constraint=f"ClusterId == {made.cluster()}")
    return dict(job)


def _reason(message: str) -> str:
    text = " ".join(message.split())
    for start in ("can't be honoured: ", "refuses the description: "):
        if start in text:
            text = text.partition(start)[2]
    text = re.sub(r"; allowed: .*", "", text)
    text = re.sub(r"^.*?attribute '?\w+'? .*?: ", "", text)
    return text.replace("|", "\\|")


def document(rows: list[Command]) -> str:
    """The table as Markdown."""
    lines = [f"| `{row.name}` | {row.becomes} | {row.why} |" for row in rows]
    counts = {word: sum(row.becomes == word for row in rows) for word in ("honoured", "hint", "refused")}
    tail = f"\nOf {len(rows)} commands {counts['honoured']} are honoured, {counts['hint']} are hints,"
    table = HEAD + "\n".join(lines) + "\n" + tail + f" {counts['refused']} are refused.\n"
    reasons = sorted(texts.REFUSED.items())
    return table + ALSO + "".join(f"| `{name}` | {why} |\n" for name, why in reasons)
