"""The options whose output is compared with HTCondor's, and their differences between its versions."""

import shlex
from pathlib import Path

QUEUES = ("25.14.1.queue.ads", "23.9.6.queue.ads", "ended.ads", "odd.ads")
SLOTS = ("25.14.1.slots.ads", "23.9.6.slots.ads", "made.slots.ads")
HISTORIES = ("25.14.1.history", "23.9.6.history")
ACCOUNTINGS = ("25.14.1.accounting.ads", "23.9.6.accounting.ads", "made.accounting.ads")

DATA = Path(__file__).parents[1] / "data/jobs"


def of(command: str) -> list[str]:
    """The command lines of a command, without its name."""
    lines = (DATA / f"{command}.options").read_text().splitlines()[1:]
    return ["" if line == "none" else line for line in lines]


#: options whose output differs between HTCondor 23.9 and 25.14, where ours is that of 25.14 -> how
OF_25_14 = {
    "-hold": "columns for the code of the reason",
    "-held": "columns for the code of the reason",
    "-hold:1": "columns for the code of the reason",
    "-hold:1/0,15": "columns for the code of the reason",
    "-batch -hold": "columns for the code of the reason",
    "-hold-codes": "new",
    "-autocluster": "a heading's spelling",
    "-group-by": "ads without an Id are all one",
    "-batch -af Owner": "ends by a signal",
    "-af:jh": "the id's column grows",
    "-af:T": "new letter",
    "-af:Y": "new letter",
    "-af:hT": "new letter",
    "-af:hY": "new letter",
    "-aaf": "new",
    "faulty.format": "RENDERAS is new",
    "-constraint 'x =='": "another message",
}

#: words with which condor_status -compact prints something else, or a table that differs without -compact too
COMPACT_OF_25_14 = {"-server", "-state", "-total", "-startd", "-schedd", "-submitters", "-run", "-any"}

#: the same for condor_history
HISTORY_OF_25_14 = {
    "": "another table",
    "-wide": "another table",
    "-xml": "attributes are sorted",
    "-json": "attributes are sorted",
    "-jsonl": "attributes are sorted",
    "-long": "attributes are sorted without regard to case",
    "-l": "attributes are sorted without regard to case",
    "-af:jh": "the id's column grows",
    "-attributes": "another table",
    "faulty.format": "RENDERAS is new",
}

#: options of condor_userprio that choose the columns; those chosen otherwise have the new column of floors
COLUMNS_OF_USERPRIO = {"-quotas", "-usage", "-priority", "-sortkey", "-surplus", "-groupid", "-order"}


def cases(file: str) -> list[tuple[str, list[str]]]:
    """The command lines on a file of ads, each with its options alone."""
    command = ["condor_q", "-jobads"] if file in QUEUES else ["condor_history", "-file"]
    command = ["condor_status", "-ads"] if file in SLOTS else command
    if file in ACCOUNTINGS:
        # HTCondor's own reads a file only where it finds a negotiator, which it does not ask then
        command = ["condor_userprio", "-name", "<127.0.0.1:9>", "-inputfile"]
    return [(line, [*command, file, *shlex.split(line)]) for line in of(command[0])]
