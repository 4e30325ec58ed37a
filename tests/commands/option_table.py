"""The options of HTCondor's commands: the number compared with HTCondor's own, and those that are refused.

``fetchwork/condor/OPTIONS.md`` is this table; a test compares the two. To write it anew, run
``FETCHWORK_WRITE_TABLE=1 .venv/bin/pytest tests/commands/test_option_table.py``.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from fetchwork.condor import historyoptions, qedit, submit, userprio
from fetchwork.condor.q import qoptions
from fetchwork.condor.status import command as status
from tests.commands.options import ACCOUNTINGS, HISTORIES, QUEUES, SLOTS, cases
from tests.commands.oracle import Answer

DOCUMENT = Path(__file__).parents[2] / "fetchwork/condor/OPTIONS.md"

#: the options that commands refuse by name
REFUSED: Mapping[str, Mapping[str, str]] = {
    "condor_q": qoptions.REFUSED,
    "condor_history": historyoptions.REFUSED,
    "condor_status": status.REFUSED,
    "condor_submit": submit.REFUSED,
    "condor_qedit": qedit.REFUSED,
    "condor_userprio": userprio.REFUSED,
    "condor_rm": {"transfer": ""},
    "condor_submit_dag": {"remote": ""},
}

HEAD = """\
# Options of HTCondor's commands

Every option in the help of HTCondor 23.9 and 25.14 is known: it works as it does there, or it is refused by
name, with the reason (`tests/commands/test_documented_options.py`).

The output is compared with that of HTCondor's own `condor_q -jobads`, `condor_history -file`,
`condor_status -ads` and `condor_userprio -inputfile`, byte for byte (`tests/commands/test_printing.py`): each
command line on each file of ads. If the two versions differ, ours prints the same as 25.14.

`condor_userprio` shows accounting groups with quotas and submitters as HTCondor's does. Submitters have no
domain here. A floor, a ceiling in weighted slots and the time of the first use are not known, so these
columns are empty or left out.

`condor_rm`, `condor_hold`, `condor_release` and `condor_vacate_job` are compared with HTCondor's over a
schedd, for each pair of options that select jobs: the output, and the changed jobs
(`tests/condor/test_acts_beside_a_schedd.py`); so are `condor_suspend` and `condor_continue`, also of jobs
that run (`tests/condor/test_suspensions.py`). `-held` takes only the held ones of the selected jobs;
HTCondor's own takes others too if several jobs are named or a constraint has an `||`. For an empty queue
HTCondor's commands say so and end with 0; here the queue may have jobs that a person may not see, so they
end with 1.

| command | command lines | files of ads | compared |
|---|---|---|---|
"""


def compared() -> list[tuple[str, int, int, int]]:
    """Return by command the command lines, the files of ads, and the number of comparisons."""
    rows = []
    compared_files = {
        "condor_q": QUEUES,
        "condor_history": HISTORIES,
        "condor_status": SLOTS,
        "condor_userprio": ACCOUNTINGS,
    }
    for name, files in compared_files.items():
        numbers = [len(cases(file)) for file in files]
        rows.append((name, numbers[0], len(files), sum(numbers)))
    return rows


def reason(run: Callable[..., Answer], directory: Path, command: str, option: str) -> str:
    """Why a command refuses an option, in its own words."""
    answer = run(command, f"-{option}", "1", "1", directory=directory, stdin=b"queue\n")
    _, found, why = answer.err.partition(f"-{option} is not supported: ")
    assert found and answer.status == 1, (command, option, answer)
    return why.splitlines()[0]


def document(reasons: Mapping[tuple[str, str], str]) -> str:
    """The whole document as Markdown."""
    rows = compared()
    lines = [f"| `{name}` | {number} | {files} | {each} |" for name, number, files, each in rows]
    total = sum(each for *_, each in rows)
    table = (
        HEAD
        + "\n".join(lines)
        + f"\n\nTogether {total} comparisons with each version, less those on 23.9 whose output differs"
        + " there, and those that HTCondor answers with its usage.\n\nRefused by name:\n\n"
        + "| command | option | why |\n|---|---|---|\n"
    )
    return table + "".join(
        f"| `{command}` | `-{option}` | {why} |\n" for (command, option), why in sorted(reasons.items())
    )
