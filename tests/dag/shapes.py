"""DAGs in the shapes that other programs generate: Pegasus, CRAB, LSST."""

from tests.dag.case import FILES, Case

SHAPES: dict[str, Case] = {
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
        # a PRE script that DAGMan tries to start while another runs goes behind those that wait
        any_order=True,
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
