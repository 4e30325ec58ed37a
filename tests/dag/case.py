"""The parts of the tests' DAGs.

A node runs ``node NAME STATUS``, a script ``script STATUS WORDS...``; both note their words in the file
``order`` of their directory. One node at a time runs unless a case sets more: the order is the DAG's.
"""

from dataclasses import dataclass, field

SERIAL = ("-maxjobs", "1", "-maxpre", "1", "-maxpost", "1")
# fails until a retry
FLAKY = """\
executable = flaky
arguments = $(JOB) $(RETRY) $(good:1)
transfer_executable = false
should_transfer_files = IF_NEEDED
queue
"""
FLAKY_PROGRAM = """\
#!/bin/sh
echo "$1 try $2" >> order
[ "$2" -ge "$3" ] || exit 7
"""
KILLED = """\
executable = killed
transfer_executable = false
should_transfer_files = IF_NEEDED
queue
"""
FILES = {
    "flaky.sub": FLAKY,
    "flaky": FLAKY_PROGRAM,
    "killed.sub": KILLED,
    "killed": "#!/bin/sh\necho killed >> order\nkill -9 $$\n",
    "one.dag": "JOB X node.sub\nJOB Y node.sub\nPARENT X CHILD Y\n",
}


@dataclass(frozen=True)
class Case:
    """A DAG; its notes are compared sorted if their order is not the DAG's."""

    text: str
    options: tuple[str, ...] = SERIAL
    files: dict[str, str] = field(default_factory=dict)
    any_order: bool = False
    #: HTCondor's first major version whose DAGMan knows it
    since: int = 0
    #: for condor_submit_dag
    environment: dict[str, str] = field(default_factory=dict)


def described(program: str, more: str = "") -> str:
    """The submit file of a node that runs a program of its own with the node's name."""
    return (
        f"executable = {program}\narguments = $(JOB)\ntransfer_executable = false\n"
        f"should_transfer_files = IF_NEEDED\n{more}queue $(jobs:1)\n"
    )


def nodes(names: str, more: str = "") -> str:
    """A JOB line for each letter, and more."""
    return "".join(f"JOB {name} node.sub\n" for name in names) + more
