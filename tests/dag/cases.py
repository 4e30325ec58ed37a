"""DAGs of the kinds in HTCondor's own tests, written anew: each feature of the language."""

from tests.dag.case import FILES, SERIAL, Case, described, nodes
from tests.dag.shapes import SHAPES

#: a node that notes its job ad's attributes about its DAG
SEES = {
    "sees.sub": described("sees"),
    "sees": '#!/bin/sh\necho $1 >> order\ngrep -e ^DAG -e ^JobPrio "$_CONDOR_JOB_AD"'
    " | sed -e 's/^DAGManJobId = [0-9]*$/its number/' -e 's/^DAGManNodesLog.*nodes.log.$/its log/'"
    " | sort >> order\n",
}

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
    # nodes beside the others, or on their way
    "a service node": Case(
        "SERVICE S serves.sub\nJOB A served.sub\n",
        (),
        {
            "serves.sub": described("serves"),
            "serves": "#!/bin/sh\necho serves >> order\nsleep 1000\n",
            "served.sub": described("served"),
            "served": "#!/bin/sh\nuntil grep -q serves order; do sleep 0.1; done\necho served >> order\n",
        },
    ),
    "a service node that ends early does not end the DAG": Case(
        "SERVICE S node.sub\nJOB A served.sub\n",
        (),
        {
            "served.sub": described("served"),
            "served": "#!/bin/sh\nuntil grep -q S order; do sleep 0.1; done\necho served >> order\n",
        },
    ),
    "a hold script releases its node": Case(
        "JOB HeldOnce held.sub\nSCRIPT HOLD HeldOnce release $JOB\n",
        files={
            "held.sub": described("held", "on_exit_hold = ExitCode == 7\n"),
            "held": "#!/bin/sh\necho try >> order\n[ -e tried ] && exit 0\ntouch tried\nexit 7\n",
            "release": "#!/bin/sh\necho held $1 >> order\n"
            'condor_release -constraint "DAGNodeName == \\"$1\\""\n',
        },
    ),
    "a node that is held too often": Case(
        "JOB A held.sub\nCONFIG x.config\nSCRIPT POST A script 1 post $RETURN\n",
        files={
            "x.config": "DAGMAN_MAX_JOB_HOLDS = 1\n",
            "held.sub": described("node", "on_exit_hold = true\n"),
        },
    ),
    "a node whose job is removed by hand": Case(
        "JOB GoesByHand waits.sub\nJOB R node.sub NOOP\nSCRIPT PRE R remove GoesByHand\n"
        "SCRIPT POST GoesByHand script 1 post $RETURN\n",
        files={
            "waits.sub": described("waits"),
            "waits": "#!/bin/sh\necho $1 >> order\nsleep 1000\n",
            "remove": "#!/bin/sh\nuntil [ -e order ]; do sleep 0.1; done\n"
            'condor_rm -constraint "DAGNodeName == \\"$1\\""\n',
        },
    ),
    "a deferred script": Case(
        nodes("AB", "SCRIPT DEFER 4 1 PRE A later\nPARENT A CHILD B\n"),
        files={"later": "#!/bin/sh\necho pre >> order\n[ -e again ] && exit 0\ntouch again\nexit 4\n"},
    ),
    "what a script says is kept": Case(
        nodes("AB", "SCRIPT DEBUG said ALL PRE A speaks\nPARENT A CHILD B\nSCRIPT PRE B hears\n"),
        files={
            "speaks": "#!/bin/sh\necho out\necho err >&2\n",
            "hears": "#!/bin/sh\ngrep -x -e out -e err said | sort >> order\n",
        },
    ),
    "the environment of the DAG": Case(
        "ENV SET GREETING=hello;OTHER=two words\nJOB A greets.sub\nSCRIPT PRE A greets\n",
        files={
            "greets": '#!/bin/sh\necho "$GREETING $OTHER" >> order\n',
            "greets.sub": described("node").replace("$(JOB)", "of-the-node-$ENV(GREETING)"),
        },
    ),
    "what the DAG takes of the environment": Case(
        "ENV GET GREETING\nJOB A node.sub\nSCRIPT PRE A greets\n",
        files={"greets": '#!/bin/sh\necho "$GREETING ${OTHER:-none}" >> order\n'},
        environment={"GREETING": "hello", "OTHER": "not asked for"},
    ),
    "an environment of the command line": Case(
        "JOB A node.sub\nSCRIPT PRE A greets\n",
        (*SERIAL, "-include_env", "GREETING", "-insert_env", "OTHER=inserted"),
        {"greets": '#!/bin/sh\necho "$GREETING $OTHER" >> order\n'},
        environment={"GREETING": "hello"},
    ),
    "what a node's job sees of its DAG": Case(
        "JOB A sees.sub\nJOB B sees.sub\nJOB C sees.sub\nPARENT A B CHILD C\nPRIORITY A 3\n",
        files=SEES,
    ),
    "a priority is handed down": Case(
        "SUBDAG EXTERNAL S in.dag\nPRIORITY S 5\n",
        # throttles are not inherited
        files={
            **SEES,
            "in.dag": "JOB A sees.sub\nJOB B sees.sub\nPRIORITY B 2\n"
            "CATEGORY A one\nCATEGORY B one\nMAXJOBS one 1\n",
        },
    ),
    "what scripts are told of a node's jobs": Case(
        'JOB A node.sub\nVARS A jobs="3"\nRETRY A 2\nSCRIPT POST A script 0 $NODE $JOB_COUNT $JOB_ABORT_COUNT'
        " $SUCCESS $RETURN $EXIT_CODES $EXIT_CODE_COUNTS $RETRY $MAX_RETRIES $NODE_COUNT $DAG_STATUS\n"
    ),
    "a failed node waits on hold": Case(
        "JOB WaitsOnHold once.sub\nCONFIG x.config\nJOB R node.sub NOOP\nSCRIPT PRE R release WaitsOnHold\n",
        files={
            "x.config": "DAGMAN_PUT_FAILED_JOBS_ON_HOLD = True\n",
            "once.sub": described("once"),
            "once": "#!/bin/sh\necho try >> order\n[ -e tried ] && exit 0\ntouch tried\nexit 7\n",
            "release": '#!/bin/sh\nheld="DAGNodeName == \\"$1\\" && JobStatus == 5"\n'
            'until condor_q -constraint "$held" -af ClusterId | grep -q .; do sleep 0.3; done\n'
            'echo held >> order\ncondor_release -constraint "$held"\n',
        },
    ),
    "a sub-DAG in a splice": Case(
        "SPLICE S in.dag\nJOB A node.sub\nPARENT S CHILD A\n",
        files={**FILES, "in.dag": "SUBDAG EXTERNAL T one.dag\n"},
    ),
    "a final node after an abort": Case(
        nodes(
            "AB",
            'VARS A status="3"\nABORT-DAG-ON A 3 RETURN 1\nPARENT A CHILD B\nFINAL F node.sub\n'
            "SCRIPT PRE F script 0 final $DAG_STATUS $FAILED_COUNT\n",
        )
    ),
    "a pre script that fails once": Case(
        nodes("A", "SCRIPT PRE A once\nRETRY A 1\n"),
        files={"once": "#!/bin/sh\necho pre >> order\n[ -e tried ] && exit 0\ntouch tried\nexit 7\n"},
    ),
    "an attribute of the DAG's own job": Case(
        nodes("A", 'SET_JOB_ATTR Colour = "green"\nSCRIPT PRE A asks $DAGID\n'),
        files={"asks": '#!/bin/sh\ncondor_q "${1%.*}" -af Colour >> order\n'},
    ),
    "how many can never run": Case(
        nodes(
            "ABCD",
            'VARS A status="1"\nPARENT A CHILD B\nPARENT B CHILD C\nFINAL F node.sub\n'
            "SCRIPT PRE F script 0 $DONE_COUNT $FAILED_COUNT $FUTILE_COUNT $DAG_STATUS\n",
        )
    ),
    "names with signs in them": Case(
        "JOB A:0 node.sub\nJOB GEN-SIM node.sub\nJOB 1 node.sub\nPARENT A:0 CHILD GEN-SIM\n"
        "PARENT GEN-SIM CHILD 1\n"
    ),
    "quoted values": Case(
        "JOB A own.sub\n" + r"""VARS A text="it is \"quoted\" and has a \\ too" """ + "\n",
        files={
            "own.sub": described("node").replace("$(JOB)", "\"'$(text)'\"").replace("$(text)", "$(text:none)")
        },
    ),
    "a priority of all nodes": Case(
        "JOB A own.sub\n",
        (*SERIAL, "-priority", "7"),
        {
            "own.sub": described("node").replace("$(JOB)", "A-$(priority:0)"),
        },
    ),
    # several files
    "two DAGs in one": Case(
        "JOB A node.sub\n", (*SERIAL, "y.dag"), {"y.dag": "JOB A node.sub\nJOB B node.sub\n"}
    ),
    "a DAG in its own directory": Case(
        "JOB A node.sub\n",
        (*SERIAL, "-usedagdir", "d/y.dag"),
        {
            "d/y.dag": "JOB B in.sub\nJOB C in.sub\nPARENT B CHILD C\n",
            "d/in.sub": described("../node").replace("$(JOB)", "$(JOB) 0 ../order"),
        },
    ),
    "a category of a splice": Case(
        "SPLICE S in.dag\nMAXJOBS S+c 1\n",
        ("-maxidle", "9"),
        {
            "in.dag": nodes("ABC", "CATEGORY A c\nCATEGORY B c\nCATEGORY C c\nMAXJOBS c 3\n"),
            "node": "#!/bin/sh\necho begin >> order\nsleep 0.3\necho end >> order\n",
        },
    ),
    "a category of all splices": Case(
        "SPLICE S in.dag\nSPLICE T in.dag\nJOB Z node.sub\nCATEGORY Z +c\nMAXJOBS +c 1\n",
        ("-maxidle", "9"),
        {
            "in.dag": nodes("A", "CATEGORY A +c\n"),
            "node": "#!/bin/sh\necho begin >> order\nsleep 0.3\necho end >> order\n",
        },
    ),
    "a DAG five deep in another": Case(
        "SUBDAG EXTERNAL S 1.dag\n",
        files={
            **{
                f"{n}.dag": f"SUBDAG EXTERNAL S {n + 1}.dag\nJOB N{n} node.sub\nPARENT S CHILD N{n}\n"
                for n in range(1, 5)
            },
            "5.dag": "JOB N5 node.sub\n",
        },
    ),
    "a sub-DAG goes on from its rescue file when it is tried again": Case(
        "SUBDAG EXTERNAL S in.dag\nRETRY S 1\n",
        files={
            "in.dag": "JOB X node.sub\nJOB Y once.sub\nPARENT X CHILD Y\n",
            "once.sub": described("once"),
            "once": "#!/bin/sh\necho try >> order\n[ -e tried ] && exit 0\ntouch tried\nexit 7\n",
        },
    ),
    # features of 25 that 23 lacks
    "inline descriptions": Case(
        "SUBMIT-DESCRIPTION d {\n"
        + described("node").partition("queue")[0]
        + "}\nJOB A d\nJOB B {\n"
        + described("node").partition("queue")[0]
        + "}\nJOB C @=end\n"
        + described("node")
        + "@end\nPARENT A CHILD B\nPARENT B CHILD C\n",
        since=24,
    ),
    "a weak dependency": Case(
        nodes("ABC", 'VARS A status="1"\nWEAK PARENT A CHILD B\nPARENT A CHILD C\n'), since=25
    ),
    "failures of a node's jobs that are tolerated": Case(
        'JOB A some.sub\nVARS A jobs="4"\nTOLERANCE A 2\nJOB B node.sub\nPARENT A CHILD B\n',
        files={
            "some.sub": described("some").replace("$(JOB)", "$(ProcId)"),
            "some": "#!/bin/sh\necho some >> order\n[ $1 -gt 0 ]\n",
        },
        since=25,
    ),
    "more failures than are tolerated": Case(
        'JOB A node.sub\nVARS A jobs="3" status="1"\nTOLERANCE A 2 WAIT\n', any_order=True, since=25
    ),
    "commands for all nodes": Case(
        "JOB A flaky.sub\nJOB B flaky.sub\nPARENT A CHILD B\nRETRY ALL_NODES 1\n"
        "SCRIPT POST ALL_NODES script $RETURN post $JOB\n",
        files=FILES,
    ),
    **SHAPES,
}
