"""DAGs of the kinds that HTCondor's own tests have, written anew: each feature of the language.

A node runs ``node NAME STATUS``, a script ``script STATUS WORDS...``; both note their words in the file
``order`` of their directory. One node at a time runs unless a case says otherwise: the order is the DAG's.
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
    """A DAG; what it notes is compared sorted where its order is not the DAG's."""

    text: str
    options: tuple[str, ...] = SERIAL
    files: dict[str, str] = field(default_factory=dict)
    any_order: bool = False


def nodes(names: str, more: str = "") -> str:
    """A JOB line for each letter, and more."""
    return "".join(f"JOB {name} node.sub\n" for name in names) + more


CASES: dict[str, Case] = {
    "one node": Case(nodes("A")),
    "a chain": Case(nodes("ABCD", "PARENT A CHILD B\nPARENT B CHILD C\nPARENT C CHILD D\n")),
    "a diamond": Case(nodes("ABCD", "PARENT A CHILD B C\nPARENT B C CHILD D\n")),
    "many parents of many": Case(nodes("ABCDEF", "PARENT A B C CHILD D E F\n")),
    "keywords in any case": Case("Job A node.sub\njob B node.sub\nparent A child B\nRetry B 1\n"),
    "a continued line and comments": Case("# a comment\nJOB A \\\nnode.sub\n\n  # more\nJOB B node.sub\n"),
    "vars before the job": Case('VARS A name="early"\nJOB A node.sub\n'),
    # scripts
    "a pre script": Case(nodes("AB", "SCRIPT PRE A script 0 pre $JOB $RETRY\nPARENT A CHILD B\n")),
    "a failing pre script": Case(nodes("AB", "SCRIPT PRE A script 1 pre $JOB\nPARENT A CHILD B\n")),
    "a post script": Case(nodes("AB", "SCRIPT POST A script 0 post $JOB $RETURN\nPARENT A CHILD B\n")),
    "a post script makes a failed node good": Case(
        nodes("AB", 'VARS A status="3"\nSCRIPT POST A script 0 post $JOB $RETURN\nPARENT A CHILD B\n')
    ),
    "a failing post script": Case(nodes("AB", "SCRIPT POST A script 4 post $RETURN\nPARENT A CHILD B\n")),
    "pre and post scripts": Case(
        nodes("A", "SCRIPT PRE A script 0 pre\nSCRIPT POST A script 0 post $RETURN $PRE_SCRIPT_RETURN\n")
    ),
    "no post script after a failing pre script": Case(
        nodes("A", "SCRIPT PRE A script 5 pre\nSCRIPT POST A script 0 post $RETURN\n")
    ),
    "a post script always": Case(
        nodes("A", "SCRIPT PRE A script 5 pre\nSCRIPT POST A script 0 post $RETURN\n"),
        (*SERIAL, "-AlwaysRunPost"),
    ),
    "counts in scripts": Case(
        nodes("AB", "SCRIPT POST B script 0 $NODE_COUNT $DONE_COUNT $FAILED_COUNT\nPARENT A CHILD B\n")
    ),
    # what fails
    "a failing node": Case(nodes("ABC", 'VARS A status="1"\nPARENT A CHILD B\n')),
    "a failing branch beside a good one": Case(
        nodes("ABCDE", 'VARS B status="9"\nPARENT A CHILD B C\nPARENT B CHILD D\nPARENT C CHILD E\n')
    ),
    "a killed node": Case("JOB A killed.sub\nSCRIPT POST A script 1 post $RETURN\n"),
    "a missing submit file": Case(
        "JOB A nothing.sub\nJOB B node.sub\nPARENT A CHILD B\nCONFIG x.config\n",
        files={"x.config": "DAGMAN_MAX_SUBMIT_ATTEMPTS = 1\n"},
    ),
    "a cycle": Case(nodes("AB", "PARENT A CHILD B\nPARENT B CHILD A\n")),
    "a child that is not there": Case(nodes("A", "PARENT A CHILD B\n")),
    "rejected": Case(nodes("A", "REJECT\n")),
    # retries
    "a retry": Case("JOB A flaky.sub\nJOB B node.sub\nPARENT A CHILD B\nRETRY A 2\n", files=FILES),
    "retries that do not help": Case(
        'JOB A flaky.sub\nVARS A good="9"\nRETRY A 2\nJOB B node.sub\nPARENT A CHILD B\n', files=FILES
    ),
    "unless exit": Case('JOB A flaky.sub\nVARS A good="9"\nRETRY A 3 UNLESS-EXIT 7\n', files=FILES),
    "unless another exit": Case("JOB A flaky.sub\nRETRY A 3 UNLESS-EXIT 8\n", files=FILES),
    "a retry with scripts": Case(
        "JOB A flaky.sub\nRETRY A 2\nSCRIPT PRE A script 0 pre $RETRY $MAX_RETRIES\n"
        "SCRIPT POST A script $RETURN post $RETRY\n",
        files=FILES,
    ),
    # abort
    "abort on": Case(nodes("ABC", 'VARS A status="3"\nABORT-DAG-ON A 3 RETURN 1\nPARENT A CHILD B\n')),
    "abort on with success": Case(nodes("AB", 'VARS A status="3"\nABORT-DAG-ON A 3 RETURN 0\n')),
    "abort on another status": Case(nodes("AB", 'VARS A status="2"\nABORT-DAG-ON A 3 RETURN 1\n')),
    "abort before a retry": Case(
        "JOB A flaky.sub\nRETRY A 3\nABORT-DAG-ON A 7 RETURN 1\nJOB B node.sub\n", files=FILES
    ),
    # splices
    "a splice": Case(nodes("AB", "SPLICE S one.dag\nPARENT A CHILD S\nPARENT S CHILD B\n"), files=FILES),
    "a splice in a splice": Case(
        nodes("A", "SPLICE S two.dag\nPARENT A CHILD S\n"),
        files={**FILES, "two.dag": "JOB T node.sub\nSPLICE U one.dag\nPARENT T CHILD U\n"},
    ),
    "a splice in a directory": Case(
        nodes("A", "SPLICE S in.dag DIR d\nPARENT A CHILD S\n"),
        files={
            "d/in.dag": "JOB X node.sub\n",
            "d/node.sub": "executable = ../node\narguments = in-d 0 ../order\ntransfer_executable = false\n"
            "should_transfer_files = IF_NEEDED\nqueue\n",
        },
    ),
    "splices with pins": Case(
        "SPLICE S s.dag\nSPLICE T t.dag\nCONNECT S T\n",
        files={
            "s.dag": "JOB A node.sub\nJOB B node.sub\nPIN_OUT A 1\nPIN_OUT B 2\n",
            "t.dag": "JOB C node.sub\nJOB D node.sub\nPIN_IN D 1\nPIN_IN C 2\n",
        },
    ),
    "a failing node in a splice": Case(
        nodes("A", "SPLICE S f.dag\nPARENT S CHILD A\n"),
        files={"f.dag": 'JOB X node.sub\nVARS X status="1"\nJOB Y node.sub\nPARENT X CHILD Y\n'},
    ),
    # DAGs in DAGs
    "a sub-DAG": Case(
        nodes("AB", "SUBDAG EXTERNAL S one.dag\nPARENT A CHILD S\nPARENT S CHILD B\n"), files=FILES
    ),
    "a failing sub-DAG": Case(
        nodes("A", "SUBDAG EXTERNAL S f.dag\nPARENT S CHILD A\n"),
        files={"f.dag": 'JOB X node.sub\nVARS X status="1"\n'},
    ),
    "a sub-DAG in a sub-DAG": Case(
        "SUBDAG EXTERNAL S two.dag\nJOB A node.sub\nPARENT S CHILD A\n",
        files={**FILES, "two.dag": "SUBDAG EXTERNAL T one.dag\nJOB Z node.sub\nPARENT T CHILD Z\n"},
    ),
    # final
    "a final node": Case(nodes("A", "FINAL F node.sub\n")),
    "a final node after a failure": Case(
        nodes(
            "AB",
            'VARS A status="1"\nPARENT A CHILD B\nFINAL F node.sub\n'
            "SCRIPT PRE F script 0 final $DAG_STATUS $FAILED_COUNT\n",
        )
    ),
    "a failing final node": Case(nodes("A", 'FINAL F node.sub\nVARS F status="2"\n')),
    "a final node's post script decides": Case(
        nodes("A", 'VARS A status="1"\nFINAL F node.sub\nSCRIPT POST F script $DAG_STATUS post $RETURN\n')
    ),
    # nodes that do not run
    "pre_skip": Case(nodes("AB", "SCRIPT PRE A script 1 pre\nPRE_SKIP A 1\nPARENT A CHILD B\n")),
    "pre_skip of another status": Case(
        nodes("AB", "SCRIPT PRE A script 2 pre\nPRE_SKIP A 1\nPARENT A CHILD B\n")
    ),
    "noop": Case(
        "JOB A node.sub NOOP\nJOB B node.sub\nPARENT A CHILD B\nSCRIPT POST A script 0 post $RETURN\n"
    ),
    "done": Case("JOB A node.sub DONE\nJOB B node.sub\nPARENT A CHILD B\n"),
    # values
    "vars": Case(nodes("A", 'VARS A name="one" status="0"\n')),
    "vars of all nodes": Case(nodes("AB", 'VARS ALL_NODES name="of-$(JOB)"\n')),
    "vars before and behind the file": Case(
        'JOB A own.sub\nJOB B own.sub\nVARS A PREPEND name="theirs"\nVARS B APPEND name="theirs"\n',
        files={
            "own.sub": "name = own\nexecutable = node\narguments = $(name)\ntransfer_executable = false\n"
            "should_transfer_files = IF_NEEDED\nqueue\n"
        },
    ),
    "vars with the retry": Case('JOB A flaky.sub\nVARS A good="$(RETRY)"\n', files=FILES),
    "a directory of a node": Case(
        "JOB A in.sub DIR d\n",
        files={
            "d/in.sub": "executable = ../node\narguments = in-d 0 ../order\ntransfer_executable = false\n"
            "should_transfer_files = IF_NEEDED\nqueue\n"
        },
    ),
    "an included file": Case(
        "JOB A node.sub\nINCLUDE more\n", files={"more": "JOB B node.sub\nPARENT A CHILD B\n"}
    ),
    # several jobs
    "a node of several jobs": Case('JOB A node.sub\nVARS A jobs="4"\nJOB B node.sub\nPARENT A CHILD B\n'),
    "a node of several jobs that fail": Case('JOB A node.sub\nVARS A jobs="3" status="1"\n', any_order=True),
    # order
    "priorities": Case(nodes("ABCD", "PRIORITY B 5\nPRIORITY D 10\nPRIORITY A -5\n")),
    "depth before breadth": Case(
        nodes("ABCD", "PARENT A CHILD C\nPARENT B CHILD D\nCONFIG x.config\n"),
        files={"x.config": "DAGMAN_SUBMIT_DEPTH_FIRST = True\n"},
    ),
    # the order among them is that of events, but never two at once
    "a category": Case(
        nodes("ABC", "CATEGORY A c\nCATEGORY B c\nCATEGORY C c\nMAXJOBS c 1\n"),
        ("-maxidle", "9"),
        {"node": "#!/bin/sh\necho begin >> order\nsleep 0.3\necho end >> order\n"},
    ),
    "wide": Case(nodes("ABCDEFGH"), ("-maxidle", "3"), any_order=True),
    # in the shape of what others generate
    "as Pegasus writes them": Case(
        "# PEGASUS WMS GENERATED DAG FILE\nMAXJOBS registration 1\nMAXJOBS stagein 2\n"
        + "".join(
            f"JOB {name} own.sub\nSCRIPT POST {name} script $RETURN exitcode {name}\nRETRY {name} 2\n"
            f'PRIORITY {name} {priority}\nCATEGORY {name} {category}\nVARS {name} +DAGNodeRetry="$(RETRY)"\n'
            for name, priority, category in (
                ("create_dir_blackdiamond_0_local", 800, "stagein"),
                ("stage_in_local_local_0_0", 700, "stagein"),
                ("preprocess_ID0000001", 10, "compute"),
                ("findrange_ID0000002", 20, "compute"),
                ("findrange_ID0000003", 20, "compute"),
                ("register_local_1_0", 900, "registration"),
            )
        )
        + "PARENT create_dir_blackdiamond_0_local CHILD stage_in_local_local_0_0\n"
        "PARENT stage_in_local_local_0_0 CHILD preprocess_ID0000001\n"
        "PARENT preprocess_ID0000001 CHILD findrange_ID0000002 findrange_ID0000003\n"
        "PARENT findrange_ID0000002 findrange_ID0000003 CHILD register_local_1_0\n",
        files={
            "own.sub": "universe = vanilla\nexecutable = node\narguments = $(JOB)\nlog = own.log\n"
            '+pegasus_generator = "Pegasus"\n+pegasus_wf_name = "blackdiamond-0"\n+pegasus_job_class = 1\n'
            "notification = NEVER\npriority = 10\ntransfer_executable = false\n"
            "should_transfer_files = IF_NEEDED\nqueue\n"
        },
    ),
    "as CRAB writes them": Case(
        "NODE_STATUS_FILE node_state 120 ALWAYS-UPDATE\n"
        + "".join(
            f"JOB Job{n} node.sub\nSCRIPT DEFER 4 1 PRE Job{n} script 0 pre $RETRY {n}\n"
            f"SCRIPT DEFER 4 1 POST Job{n} script $RETURN post $RETRY $MAX_RETRIES {n}\n"
            f'VARS Job{n} count="{n}" status="{status}" My.CRAB_localOutputFiles="\\"out_{n}.root\\""\n'
            f"RETRY Job{n} 2 UNLESS-EXIT 2\nABORT-DAG-ON Job{n} 3\n"
            for n, status in ((1, 0), (2, 2), (3, 0))
        )
        + "SUBDAG EXTERNAL Job1SubJobs one.dag NOOP\nSCRIPT DEFER 4 1 PRE Job1SubJobs script 0 sub\n",
        files=FILES,
    ),
    "as LSST writes them": Case(
        'JOB pipetaskInit "jobs/init/init.sub" DIR "jobs/init"\n'
        + "".join(
            f'JOB {label}_{n} "jobs/quantum.sub"\nVARS {label}_{n} qgraphNodeId="{n}" label="{label}"\n'
            for label in ("isr", "calibrate")
            for n in (1, 2)
        )
        + 'FINAL finalJob "jobs/final.sub"\nSCRIPT POST finalJob script $RETURN final $DAG_STATUS\n'
        "PARENT pipetaskInit CHILD isr_1 isr_2\nPARENT isr_1 CHILD calibrate_1\n"
        'PARENT isr_2 CHILD calibrate_2\nSET_JOB_ATTR bps_run = "u/run"\nDOT run.dot UPDATE\n',
        files={
            "jobs/init/init.sub": "executable = ../../node\narguments = init 0 ../../order\n"
            "transfer_executable = false\nshould_transfer_files = IF_NEEDED\nqueue\n",
            "jobs/quantum.sub": "executable = node\narguments = $(label)-$(qgraphNodeId)\n"
            '+bps_job_label = "$(label)"\ntransfer_executable = false\nshould_transfer_files = IF_NEEDED\n'
            "queue\n",
            "jobs/final.sub": "executable = node\narguments = final\ntransfer_executable = false\n"
            "should_transfer_files = IF_NEEDED\nqueue\n",
        },
    ),
}
