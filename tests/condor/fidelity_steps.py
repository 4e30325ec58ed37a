"""A script of many small steps for a queue: ``python fidelity_steps.py [SHARE]``.

It asks the queue of ``import htcondor2`` and of the commands on PATH, so it runs by itself, in a place where
no module of these tests can be imported. A step is an expression; its answer is a value, or the names of the
exception's classes; answers.json gets all of them. SHARE: one of so many steps is run.

Clusters have numbers from 7001 on, so that they can be told from other numbers.
"""

import inspect
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import classad2
import htcondor2

PATIENCE_S = 120
IDLE = """
executable = /bin/true
arguments = 1
transfer_executable = false
should_transfer_files = IF_NEEDED
requirements = false
"""
ENDS = IDLE.replace("requirements = false\n", "").replace("/bin/true", "/bin/sh")
SUBMITTED = re.compile(r"cluster (\d+)|^(\d+)\.\d+ - ", re.M)

#: the classes of the bindings that are more than enums, and those of their names that a program may use
CLASSES = {
    "Schedd": "act addUserRec create_ocu daemonHistory disableUserRec edit enableUserRec export_jobs"
    " get_claims history import_exported_job_results jobEpochHistory query queryUserAds"
    " queryProjectAds query_ocu refreshGSIProxy remove_ocu removeUserRec reschedule retrieve spool"
    " submit unexport_jobs updateUserRec",
    "Collector": "advertise directQuery locate locateAll query",
    "Startd": "cancelDrainJobs drainJobs history vacate vacateSlot",
    "Negotiator": "deleteUser getPriorities getResourceUsage resetAllUsage resetUsage setBeginUsage"
    " setCeiling setFactor setLastUsage setPriority setUsage",
    "Credd": "add_password add_user_cred add_user_service_cred check_user_service_creds delete_password"
    " delete_user_cred delete_user_service_cred get_oauth2_credential query_password query_user_cred"
    " query_user_service_cred",
    "Submit": "expand from_dag from_dag_options getQArgs getSubmitMethod issue_credentials itemdata jobs"
    " procs setQArgs setSubmitMethod",
    "SubmitResult": "cluster clusterad first_proc num_procs",
    "JobEvent": "get items keys values",
    "JobEventLog": "close events",
    "RemoteParam": "get items keys refresh",
    "DAGMan": "halt resume set_throttles",
}
ENUMS = "AdType CompletionType CredType DaemonType DrainType FileTransferEventType JobAction JobEventType"
ENUMS += " JobStatus LogLevel QueryOpt SubmitMethod SubsystemType TransactionFlag VacateType"

#: attributes of a job that a schedd of 25.14 has just got
ATTRIBUTES = """
Args Cmd CommittedSlotTime CommittedSuspensionTime CommittedTime CondorVersion CumulativeRemoteSysCpu
CumulativeRemoteUserCpu CumulativeSlotTime CumulativeSuspensionTime CurrentHosts DiskUsage
EnteredCurrentStatus Environment Err ExecutableSize ExitBySignal ExitStatus FileSystemDomain ImageSize In
Iwd JobLeaseDuration JobNotification JobPrio JobStatus JobUniverse LeaveJobInQueue MaxHosts MinHosts
MyType NumCkpts NumJobCompletions NumJobStarts NumRestarts NumSystemHolds OnExitHold OnExitRemove Out
Owner PeriodicHold PeriodicRelease PeriodicRemove ProcId Rank RemoteSysCpu RemoteUserCpu
RemoteWallClockTime RequestCpus RequestDisk RequestMemory Requirements RootDir ShouldTransferFiles
SubmitVersion TargetType TotalSubmitProcs TotalSuspensions TransferErr TransferIn TransferInputSizeMB
TransferOut User WantCheckpoint WantRemoteIO WantRemoteSyscalls WhenToTransferOutput
"""
#: lines of submit descriptions: the answer is the change of the job's ad
SUBMIT_LINES = """
arguments = a b c
arguments = "a 'b c' d""e"
args = 7
environment = A=1;B=2
environment = "A=1 B='two words'"
getenv = HOME
input = /dev/null
output = out.txt
error = err.txt
log = job.log
initialdir = /tmp
request_cpus = 2
request_memory = 512
request_memory = 2GB
request_memory = 100K
request_disk = 1GB
request_disk = 5
request_gpus = 1
require_gpus = Capability > 8
rank = Memory
requirements = Memory > 99
priority = 5
prio = -5
nice_user = true
job_lease_duration = 600
max_retries = 3
retry_until = ExitCode == 4
success_exit_code = 2
on_exit_hold = ExitCode == 3
on_exit_hold_reason = "three"
on_exit_remove = ExitCode == 0
periodic_hold = NumJobStarts > 3
periodic_hold_reason = "often"
periodic_hold_subcode = 7
periodic_release = HoldReasonCode == 3
periodic_remove = JobStatus == 5
leave_in_queue = false
hold = true
notification = Error
notify_user = me@example.org
email_attributes = RemoteHost
kill_sig = SIGINT
kill_sig = 9
remove_kill_sig = SIGTERM
job_max_vacate_time = 30
want_graceful_removal = true
keep_claim_idle = 20
coresize = 0
concurrency_limits = alpha,beta
accounting_group_user = me
batch_name = mine
JobBatchName = other
description = some words
+Mine = 1
+Mine = "text"
+Mine = {1, 2}
MY.Mine = 1 + 1
my.Mine = Owner
+Mine = [a = 1]
should_transfer_files = YES
should_transfer_files = NO
when_to_transfer_output = ON_EXIT_OR_EVICT
transfer_input_files = /etc/hostname
transfer_output_files = a, b
transfer_output_remaps = "a=b"
preserve_relative_paths = true
transfer_plugins = x=/bin/true
stream_output = true
max_transfer_input_mb = 5
allowed_execute_duration = 60
allowed_job_duration = 600
deferral_time = 2000000000
cron_minute = 5
dagman_log = nodes.log
submit_event_notes = a note
log_xml = true
load_profile = true
run_as_owner = true
stack_size = 5
next_job_start_delay = 1
universe = vanilla
universe = 5
universe = local
use_oauth_services = none_such
x = 1
arguments = $(Cluster) $(Process)
arguments = $(ClusterId).$(ProcId)
arguments = $(x:default) $INT(y:3)
arguments = $RANDOM_CHOICE(a)
arguments = $F(/a/b.c) $Fn(/a/b.c)
arguments = $ENV(HOME)
arguments = $$(Memory)
container_image = image.sif
docker_image = debian
universe = docker
universe = java
universe = grid
universe = parallel
universe = none_such
request_cpus = none
request_memory = -
priority = abc
requirements = (
periodic_hold = 1 +
notification = Sometimes
should_transfer_files = PERHAPS
when_to_transfer_output = NEVER
executable =
max_materialize = 2
deferral_time = x
kill_sig = NONE_SUCH
environment = "A='
arguments = "a
queue 2
queue 2 x in (a b)
queue x from (
""".strip().splitlines()
SUBMIT_COMMANDS = """
condor_submit idle.sub
condor_submit -terse idle.sub
condor_submit -batch-name mine idle.sub
condor_submit idle.sub -append 'priority = 3'
condor_submit -a 'priority = 3' -a '+Mine = 3' idle.sub
condor_submit priority=3 idle.sub
condor_submit idle.sub -queue 3
condor_submit idle.sub -queue x in a b c
condor_submit -terse idle.sub -queue 2
condor_submit -dry-run - idle.sub | grep -c =
condor_submit -verbose idle.sub | grep -c ' = '
condor_submit none.sub
condor_submit wrong.sub
condor_submit queueless.sub
condor_submit < idle.sub
condor_submit - < idle.sub | head -1
condor_submit -none-such idle.sub
condor_submit -maxjobs 1 idle.sub -queue 2
condor_submit -single-cluster idle.sub
condor_submit -disable idle.sub
condor_submit unused.sub
condor_submit -name none-such idle.sub
condor_submit -spool idle.sub
condor_submit -version
condor_submit -help
condor_submit idle.sub unused.sub
""".strip().splitlines()

# a cluster A of three jobs: 0 with Mine = 1 and priority 5, 1 is Held, 2 with a log
CONSTRAINTS = """
true
false
True
1
0
undefined
""
None
ClusterId == A
ClusterId == A && ProcId == 0
ClusterId == A && ProcId < 2
ClusterId == A && ProcId =?= undefined
ClusterId == A && JobStatus == 5
ClusterId == A && JobStatus =!= 5
ClusterId == A && Mine == 1
ClusterId == A && Mine =!= 1
ClusterId == A && Mine
ClusterId == A && !Mine
ClusterId == A && mine == 1
ClusterId == A && MY.Mine == 1
ClusterId == A && TARGET.Mine == 1
ClusterId == A && Other == 1
ClusterId == A && JobPrio > 0
ClusterId == A && JobPrio
ClusterId == A && Owner == "alice"
ClusterId == A && Owner == "ALICE"
ClusterId == A && Owner =?= "ALICE"
ClusterId == A && User == "alice@fetchwork"
ClusterId == A && regexp("^alice@", User)
ClusterId == A && Arguments == "1"
ClusterId == A && Args == "1"
ClusterId == A && Cmd == "/bin/true"
ClusterId == A && strcat(Cmd, Args) == "/bin/true1"
ClusterId == A && ImageSize > 0
ClusterId == A && ImageSize >= 0
ClusterId == A && DiskUsage >= 0
ClusterId == A && RequestMemory >= 1
ClusterId == A && RequestMemory == 128
ClusterId == A && RequestDisk > 0
ClusterId == A && RequestCpus == 1
ClusterId == A && CurrentTime > QDate
ClusterId == A && CurrentTime - QDate < 600
ClusterId == A && ServerTime > 0
ClusterId == A && time() >= QDate
ClusterId == A && time() - EnteredCurrentStatus < 600
ClusterId == A && QDate > 0
ClusterId == A && HoldReasonCode == 1
ClusterId == A && HoldReason =!= undefined
ClusterId == A && regexp("test", HoldReason)
ClusterId == A && isUndefined(HoldReason)
ClusterId == A && stringListMember("b", "a,b")
ClusterId == A && size(Cmd) == 9
ClusterId == A && toUpper(Owner) == "ALICE"
ClusterId == A && substr(Cmd, 0, 4) == "/bin"
ClusterId == A && ifThenElse(Mine =?= 1, true, false)
ClusterId == A && (Mine ?: 7) == 7
ClusterId == A && member(ProcId, {0, 2})
ClusterId == A && ProcId in {0, 2}
ClusterId == A && JobUniverse == 5
ClusterId == A && Requirements == false
ClusterId == A && Requirements
ClusterId == A && NumJobStarts == 0
ClusterId == A && RemoteHost =?= undefined
ClusterId == A && GlobalJobId =!= undefined
ClusterId == A && UserLog =!= undefined
ClusterId == A && Iwd == "/tmp/x"
ClusterId == A && JobBatchName =!= undefined
ClusterId == A && TotalSubmitProcs == 3
ClusterId == A && MyType == "Job"
ClusterId == A && TargetType == "Machine"
ClusterId == A && LeaveJobInQueue == false
ClusterId == A && error
ClusterId == A && ProcId / 0 == 1
ClusterId == A && Cmd + 1 == 2
ClusterId == A && ProcId == 0.0
ClusterId == A && ProcId == "0"
ClusterId == A && random() >= 0
ClusterId ==
(
ClusterId = A
not an expression
nosuchfunction(1)
""".strip().splitlines()
PROJECTIONS = [
    *([], ["ClusterId", "ProcId"], ["ProcId"], ["procid"], ["Mine"], ["NoSuch"], ["Mine", "NoSuch"]),
    *(["ClusterId,ProcId"], ["ClusterId ProcId"], ["Requirements"], ["RequestMemory"], ["MyType"], "ProcId"),
    *(("ProcId", "Cmd"), ["JobStatus", "HoldReason"], ["ServerTime"], [""], [5], ["Cmd", "cmd"], None),
]
QUERIES = [
    "schedd.query(A, ['ProcId'], limit=1)",
    "schedd.query(A, ['ProcId'], limit=0)",
    "schedd.query(A, ['ProcId'], limit=2)",
    "schedd.query(A, ['ProcId'], limit=-1)",
    "schedd.query(A, ['ProcId'], limit='2')",
    "schedd.query(A, ['ProcId'], limit=2.0)",
    "schedd.query(A, ['ProcId'], limit=None)",
    "schedd.query(A, ['ProcId'], callback=lambda ad: ad['ProcId'])",
    "schedd.query(A, ['ProcId'], callback=lambda ad: ad['ProcId'] or None)",
    "schedd.query(A, ['ProcId'], callback=lambda ad: ad['NoSuch'])",
    "schedd.query(classad2.ExprTree(A), ['ProcId'])",
    "schedd.query(constraint=A, projection=['ProcId'])",
    "schedd.query(True, ['ProcId'])[-1]",
    "schedd.query(5, ['ProcId'])[-1]",
    "schedd.query(A, ['ProcId'], opts=b.QueryOpt.DefaultMyJobsOnly)",
    "schedd.query(A, ['ClusterId'], opts=b.QueryOpt.IncludeClusterAd)",
    "schedd.query(A, [], opts=b.QueryOpt.SummaryOnly)[0]['Jobs']",
    "schedd.query(A, [], opts=b.QueryOpt.SummaryOnly)[0]['Held']",
    "sorted(schedd.query(A, [], opts=b.QueryOpt.SummaryOnly)[0].keys())",
    "schedd.query(A, [], opts=b.QueryOpt.SummaryOnly, limit=1)[0]['Idle']",
    "schedd.query(A, ['ProcId'], opts=7000)",
    "schedd.query(A, ['ProcId'], opts='x')",
    "sorted(schedd.query(A + ' && ProcId == 0')[0].keys())",
    "sorted(schedd.query(A + ' && ProcId == 1')[0].keys())",
    "schedd.query(A + ' && ProcId == 0')[0]['Requirements']",
    "schedd.query(A + ' && ProcId == 0')[0].eval('RequestMemory')",
    "type(schedd.query(A)[0]).__module__",
    "schedd.query(A)[0]['nosuch']",
    "schedd.query(A)[0].get('nosuch', 7)",
    "schedd.query(A)[0].lookup('RequestDisk')",
    "'cmd' in schedd.query(A)[0]",
    "next(iter(schedd.query(A, ['ProcId'])))",
]
Q_COMMANDS = """
condor_q C
condor_q C -nobatch
condor_q C.1
condor_q C.9
condor_q C -totals
condor_q C -af ProcId
condor_q C -af:j JobStatus
condor_q C -af:h ProcId JobStatus
condor_q C -af:lng ProcId Mine
condor_q C -af:tr ProcId RequestMemory
condor_q C -af:, ProcId Cmd
condor_q C -af:V Cmd Owner
condor_q C -af NoSuch
condor_q C -af RequestCpus+1
condor_q C -af 'ifThenElse(Mine=?=1,"yes","no")'
condor_q C -af:jr Requirements
condor_q C -format '%d\\n' ProcId
condor_q C -format '%d.' ClusterId -format '%d\\n' ProcId
condor_q C -format '%s\\n' Cmd
condor_q C -format '%v\\n' Mine
condor_q C -format '%V\\n' Cmd
condor_q C -format '%5.2f\\n' JobPrio
condor_q C -long -attributes ProcId,JobStatus
condor_q C -long -attributes Mine
condor_q C -json -attributes ProcId,JobStatus
condor_q C -jsonl -attributes ProcId
condor_q C -xml -attributes ProcId,Mine
condor_q C -long:new -attributes ProcId
condor_q C -hold
condor_q C -hold -af ProcId
condor_q C -run
condor_q C -idle -af ProcId
condor_q C -io
condor_q C -dag
condor_q C -dag -nobatch
condor_q C -wide -nobatch
condor_q C -constraint 'ProcId == 0' -af ProcId
condor_q -constraint 'ClusterId == C && ProcId > 0' -af ProcId
condor_q -constraint 'ClusterId == C && Mine == 1' -af ProcId
condor_q -const 'ClusterId == C' -af ProcId
condor_q -constraint 'ClusterId ==' -af ProcId
condor_q -constraint false
condor_q -constraint false -af ProcId
condor_q -constraint false -json
condor_q -constraint false -xml
condor_q C -limit 1 -af ProcId
condor_q C -limit 0 -af ProcId
condor_q C -limit x -af ProcId
condor_q C -allusers -af ProcId
condor_q -submitter alice -constraint 'ClusterId == C' -af ProcId
condor_q -submitter none_such -af ProcId
condor_q alice -constraint 'ClusterId == C' -af ProcId
condor_q none_such -af ProcId
condor_q C.0 C.2 -af ProcId
condor_q C.2 C.0 -af ProcId
condor_q C C.0 -af ProcId
condor_q 1 -af ProcId
condor_q C.x -af ProcId
condor_q -none-such
condor_q C -name none-such
condor_q C -global -af ProcId
condor_q C -pool none-such
condor_q C -grid
condor_q C -batch
condor_q C -jobads /etc/hostname
condor_q C -userlog /etc/hostname
condor_q C -version
condor_q C -help
condor_q C -better-analyze:summary
condor_q C -unmatchable
condor_q C -attributes
condor_q C -af
condor_q C -format %d
condor_q C -xml -json
""".strip().splitlines()

#: of a cluster A of four jobs, of which none runs, and of B, of two
ACTS = [
    ("Hold", "A.0", None),
    ("Hold", "A.0", "again"),
    ("Hold", ["A.0", "A.1"], "both"),
    ("Hold", ["A.2", "A.99"], "one is not there"),
    ("Release", "A", None),
    ("Release", "A.0", "again"),
    ("Release", ["A.0", "A.0"], None),
    ("Hold", "ClusterId == A && ProcId < 2", "a reason"),
    ("Hold", 0, "by its number"),
    ("Release", "ClusterId == A", "by a constraint"),
    ("Vacate", "A.0", None),
    ("VacateFast", "ClusterId == A", None),
    ("Suspend", "A.0", None),
    ("Continue", "A.0", None),
    ("RemoveX", "A.0", None),
    ("Hold", [], None),
    ("Hold", "", None),
    ("Hold", "ClusterId ==", None),
    ("Hold", "none such", None),
    ("Hold", 7.5, None),
    ("Hold", ["a"], None),
    ("Hold", [5], None),
    ("Hold", "false", None),
    ("Hold", "A.0", 5),
    ("Hold", "A.3", ("a reason", 7)),
    ("Release", "A.3", "with a code"),
    ("Remove", "A.3", "not wanted"),
    ("Remove", "A.3", None),
    ("Remove", ["A.2", "A.2"], None),
    ("Remove", "B", None),
    ("Remove", "ClusterId == A", None),
    ("Remove", "ClusterId == A", None),
]
#: of such clusters, each command; C and D are their numbers
ACT_COMMANDS = """
condor_hold C.0
condor_hold C.0
condor_hold C.0 C.1 -reason 'for a test'
condor_hold C.9
condor_hold C.2 -subcode 7
condor_q C -af ProcId JobStatus HoldReason HoldReasonCode HoldReasonSubCode
condor_hold
condor_hold -constraint 'ClusterId == C && ProcId == 3'
condor_hold -constraint 'ClusterId == C && ProcId == 9'
condor_hold -constraint 'ClusterId =='
condor_hold none_such
condor_release C.0
condor_release C.0
condor_release C
condor_release C
condor_release C.9
condor_release -constraint 'ClusterId == C'
condor_release -constraint false
condor_hold C
condor_release C -reason 'a reason'
condor_vacate_job C.0
condor_vacate_job -fast C
condor_prio -p 7 C.0
condor_prio +3 C.0
condor_prio -p x C.0
condor_prio -p 5 C
condor_prio 5 C.9
condor_rm C.0 -reason 'not wanted'
condor_rm C.0
condor_rm C.9
condor_rm -constraint 'ClusterId == C && ProcId == 1'
condor_rm -forcex C.2
condor_rm -none-such C.2
condor_rm C D
condor_rm C
condor_rm -long C
condor_rm -totals -constraint 'ClusterId == C'
condor_rm
""".strip().splitlines()

#: attribute, value
EDITS = [
    *(("Mine", "1"), ("Mine", 2), ("Mine", 2.5), ("Mine", True), ("Mine", '"text"'), ("Mine", "1 + 1")),
    *(("Mine", "undefined"), ("Mine", "{1, 2}"), ("Mine", "[a = 1]"), ("Mine", 'strcat("a", "b")')),
    *(("Mine", "Owner"), ("mine", "3"), ("JobPrio", "7"), ("JobPrio", '"x"'), ("JobPrio", "1 + 1")),
    *(("RequestMemory", "256"), ("RequestCpus", "2"), ("Requirements", "true"), ("Requirements", "false")),
    *(("Rank", "Memory"), ("Args", '"2"'), ("Arguments", '"2"'), ("Cmd", '"/bin/false"'), ("Env", '"A=1"')),
    *(("Owner", '"bob"'), ("User", '"bob@x"'), ("ClusterId", "5"), ("ProcId", "5"), ("JobStatus", "5")),
    *(
        ("QDate", "5"),
        ("HoldReason", '"x"'),
        ("NumJobStarts", "5"),
        ("MyType", '"x"'),
        ("GlobalJobId", '"x"'),
    ),
    *(("Mine", "("), ("Mine", ""), ("a b", "1"), ("1a", "1"), ("", "1"), ("Mine", None), ("Mine", "a b")),
    *(("Mine", classad2.ExprTree("1 + 2")), ("LeaveJobInQueue", "false"), ("JobLeaseDuration", "60")),
    *(("PeriodicRemove", "false"), ("OnExitHold", "false"), ("JobBatchName", '"other"'), ("MaxRetries", "2")),
]
EDIT_CALLS = [
    "schedd.edit(['C.0', 'C.1'], 'Mine', '5')",
    "schedd.edit(['C.0', 'C.9'], 'Mine', '6')",
    "schedd.edit(['C.9'], 'Mine', '6')",
    "schedd.edit('C', 'Mine', '7')",
    "schedd.edit(CLUSTER, 'Mine', '8')",
    "schedd.edit('ClusterId == C && ProcId == 0', 'Mine', '9')",
    "schedd.edit('ClusterId == C && ProcId == 9', 'Mine', '9')",
    "schedd.edit([], 'Mine', '9')",
    "schedd.edit('', 'Mine', '9')",
    "schedd.edit(['x'], 'Mine', '9')",
    "schedd.edit('C.0', 'Mine', '9', b.TransactionFlag.NonDurable)",
    "schedd.edit('C.0', 'Mine', '9', 0)",
    "schedd.edit('C.0', 5, '9')",
    "sorted((ad['ProcId'], ad.get('Mine')) for ad in schedd.query('ClusterId == C', ['ProcId', 'Mine']))",
]
EDIT_COMMANDS = """
condor_qedit C.0 Mine 1
condor_qedit C.0 Mine=2
condor_qedit C Mine 3
condor_qedit C.0 Mine '"text"' JobPrio 4
condor_qedit -constraint 'ClusterId == C' Mine 5
condor_qedit -constraint 'ClusterId == C && ProcId == 9' Mine 5
condor_qedit C.9 Mine 6
condor_qedit C.0 C.9 Mine 6
condor_qedit C.0 Owner '"bob"'
condor_qedit C.0 ClusterId 5
condor_qedit C.0 Mine '('
condor_qedit C.0 Mine
condor_qedit C.0
condor_qedit
condor_qedit -none-such
condor_qedit alice Mine 7
condor_q C -af ProcId Mine JobPrio
""".strip().splitlines()

# E is a cluster of three ended jobs, with the exit codes 0, 1 and 2, and R a removed one
HISTORY = [
    f"schedd.history(E, [{name!r}])"
    for name in (
        *("ProcId", "ExitCode", "JobStatus", "ExitBySignal", "NumJobStarts", "NumJobCompletions"),
        *("NumShadowStarts", "JobRunCount", "ExitStatus", "RemoteHost", "RemoveReason", "Owner", "Args"),
        *("TotalSuspensions", "NumHolds", "NumCkpts", "LastJobStatus", "TerminationPending", "OnExitRemove"),
        *("CommittedSuspensionTime", "CumulativeSuspensionTime", "ExitSignal", "SpooledOutputFiles"),
        *("CpusProvisioned", "JobUniverse", "StartdPrincipal", "NumJobMatches", "WantRemoteIO", "NoSuch"),
    )
] + [
    "schedd.history(R, ['JobStatus', 'RemoveReason', 'LastJobStatus'])",
    "sorted(schedd.history(R)[0].keys())",
    "sorted(schedd.history(E)[0].keys())",
    "schedd.history(E, ['ProcId'], 1)",
    "schedd.history(E, ['ProcId'], 0)",
    "schedd.history(E, ['ProcId'], match=2)",
    "schedd.history(E, ['ProcId'], match='2')",
    "schedd.history(E + ' && ExitCode == 1', ['ProcId'])",
    "schedd.history(E + ' && ExitCode > 0', ['ProcId'])",
    "schedd.history(E + ' && CompletionDate > 0', ['ProcId'])",
    "schedd.history(E + ' && CurrentTime > 0', ['ProcId'])",
    "schedd.history(E, ['ProcId'], since=R_ID)",
    "schedd.history(E, ['ProcId'], since='ExitCode == 1')",
    "schedd.history(E, ['ProcId'], since='(')",
    "schedd.history(E, ['ProcId'], since=1.5)",
    "schedd.history('(', ['ProcId'])",
    "schedd.history('ClusterId == 1')",
    "schedd.history(None, ['ProcId'], 1)",
    "schedd.history(E, ['ProcId,ExitCode'], 1)",
    "schedd.history(E, ['procid'], 1)",
    "schedd.history(E, [], 1)[0]['exitcode'] >= 0",
    "schedd.history(E, 'ProcId', 1)",
    "schedd.query(E)",
    "schedd.jobEpochHistory(E, ['ProcId', 'RunInstanceId'])",
    "schedd.jobEpochHistory(E, ['ProcId'], 1)",
    "schedd.jobEpochHistory(R, ['ProcId'])",
    "schedd.jobEpochHistory(E, ['ProcId'], ad_type='EPOCH')",
    "schedd.jobEpochHistory(E, ['ProcId'], ad_type=5)",
]
HISTORY_COMMANDS = """
condor_history C
condor_history C.1
condor_history C.9
condor_history C -af ProcId ExitCode
condor_history C -af:j ExitCode
condor_history C -af:h ProcId
condor_history C -limit 1 -af ProcId
condor_history C -match 2 -af ProcId
condor_history C -forwards -af ProcId
condor_history C -backwards -af ProcId
condor_history -constraint 'ClusterId == C && ExitCode == 1' -af ProcId
condor_history -constraint 'ClusterId == C && ExitCode > 0' -af ProcId
condor_history -constraint false
condor_history -constraint 'ClusterId ==' -af ProcId
condor_history C -json -attributes ProcId,ExitCode
condor_history C -long -attributes ProcId,ExitCode
condor_history C -xml -attributes ProcId
condor_history C -format '%d\\n' ExitCode
condor_history C -wide
condor_history C -since C.1 -af ProcId
condor_history -since C.0 -af ClusterId ProcId -constraint 'ClusterId == C'
condor_history alice -constraint 'ClusterId == C' -af ProcId
condor_history none_such -af ProcId
condor_history -none-such
condor_history C -limit x
condor_history -userlog none.log
condor_history D
condor_history D -af JobStatus RemoveReason
condor_history D.0 -af:l JobStatus
condor_history C D -af ClusterId ProcId
condor_history C -completedsince 5 -af ProcId
condor_history C -epochs -af ProcId
condor_wait -wait 5 ends.log C
condor_wait -num 1 ends.log
condor_wait -status -wait 5 ends.log C.0
condor_wait none.log
condor_wait -wait 1 ends.log 99
condor_q C
condor_q C -af ProcId
""".strip().splitlines()

LOG = [
    "[event.type.name for event in events if event.proc == 0]",
    "[event.type.name for event in events if event.proc == 1]",
    "[event.type.name for event in removed]",
    *(f"sorted(first({kind!r}).keys())" for kind in ("SUBMIT", "EXECUTE", "JOB_TERMINATED")),
    *(f"sorted(first({kind!r}, removed).keys())" for kind in ("JOB_HELD", "JOB_RELEASED", "JOB_ABORTED")),
    "first('SUBMIT').get('LogNotes')",
    "first('SUBMIT').get('Warnings')",
    "first('SUBMIT')['MyType']",
    "first('SUBMIT')['EventTypeNumber']",
    "first('SUBMIT')['Subproc']",
    "first('EXECUTE')['MyType']",
    "first('EXECUTE').get('NodeName')",
    *(
        f"[event.get({name!r}) for event in events if event.type.name == 'JOB_TERMINATED']"
        for name in (
            *("ReturnValue", "TerminatedNormally", "TerminatedBySignal", "CoreFile", "SentBytes"),
            *("ReceivedBytes", "TotalSentBytes", "MyType", "RequestCpus", "RequestMemory"),
        )
    ),
    "first('JOB_HELD', removed)['HoldReason']",
    "first('JOB_HELD', removed)['HoldReasonCode']",
    "first('JOB_HELD', removed)['HoldReasonSubCode']",
    "first('JOB_RELEASED', removed)['Reason']",
    "first('JOB_ABORTED', removed)['Reason']",
    "first('SUBMIT').cluster",
    "first('SUBMIT').proc",
    "type(first('SUBMIT').timestamp).__name__",
    "first('SUBMIT')['NoSuch']",
    "'SubmitHost' in first('SUBMIT')",
    "re.sub(r'<[^>]*>', 'ADDRESS', str(first('SUBMIT')))",
    "str(first('JOB_HELD', removed))",
    "str(first('JOB_RELEASED', removed))",
    "str(first('JOB_ABORTED', removed))",
    "[line for line in pathlib.Path('ends.log').read_text().splitlines() if line[:3] == '000']",
    "[line for line in pathlib.Path('removed.log').read_text().splitlines()]",
    "list(b.JobEventLog('none.log').events(0))",
    "len(list(b.JobEventLog('removed.log').events(0))) == len(removed)",
    "len(list(b.JobEventLog('removed.log').events(stop_after=0))) == len(removed)",
    "next(b.JobEventLog('ends.log').events(0)).type.name",
    "type(b.JobEventLog('/tmp').events(0)).__name__",
]
OTHERS = [
    "b.Collector().locate(b.DaemonType.Schedd)['MyType']",
    "'MyAddress' in b.Collector().locate(b.DaemonType.Schedd)",
    "b.Collector().locate(b.DaemonType.Schedd, 'none such')",
    "b.Collector().locate(b.DaemonType.Startd)['MyType']",
    "len(b.Collector().locateAll(b.DaemonType.Schedd))",
    "b.Collector().query(b.AdType.Schedd, projection=['MyType'])[0]['MyType']",
    "len({ad['Name'] for ad in b.Collector().query(b.AdType.Slot)}) > 0",
    "b.Collector().query(b.AdType.Startd, 'SlotID == 1', ['SlotID'])",
    "b.Collector().query(b.AdType.Startd, 'SlotID ==', ['SlotID'])",
    "b.Collector().query(b.AdType.Startd, 'SlotID == 77', ['SlotID'])",
    "b.Collector().query(b.AdType.Startd, 'SlotID == 1', ['Cpus', 'Arch', 'OpSys'])[0]['Arch']",
    "b.Collector().directQuery(b.DaemonType.Schedd, projection=['MyType'])['MyType']",
    "b.Schedd(b.Collector().locate(b.DaemonType.Schedd)).query('false')",
    "b.Schedd(classad2.ClassAd())",
    "b.Schedd(5)",
    "b.Schedd().reschedule()",
    "b.Schedd().retrieve('ClusterId == 1')",
    "b.Credd().query_password()",
    "b.Negotiator().setFactor('alice', 2)",
    "b.Negotiator().setFactor('alice@x', 0.1)",
    "b.Negotiator().getResourceUsage('alice')",
    "b.Negotiator().deleteUser(5)",
    "b.Negotiator().setCeiling('alice', 1)",
    "b.Negotiator().resetUsage('alice')",
    "b.Startd().drainJobs(how=5)",
    "b.Startd(5)",
    "b.Credd(5)",
    "b.Negotiator(5)",
    "b.param['SCHEDD_INTERVAL']",
    "b.param.get('NO_SUCH_SETTING', 7)",
    "b.version()[:15]",
    "b.Submit('executable = x\\nqueue 3').getQArgs()",
    "str(b.Submit({'executable': 'x'}))",
    "b.Submit('executable = x').expand('executable')",
    "[str(job.get('Cmd')) for job in b.Submit('executable = /x\\nqueue 2').jobs(clusterid=9)]",
    "list(b.Submit('queue x in (a b)').itemdata())",
    "b.Submit(5)",
    "sorted(b.Submit.from_dag_options())",
    "sorted(b.Submit.from_dag('a.dag', {'force': True}).keys())",
    "b.Submit.from_dag('a.dag', {'no such': 1})",
    "b.Submit.from_dag('none.dag')",
    "shell('condor_config_val SCHEDD_INTERVAL')",
    "shell('condor_config_val NO_SUCH')",
    "shell('condor_version')[1][:15]",
    "shell('condor_status -af SlotID -constraint \"SlotID == 1\"')",
    "shell('condor_status -constraint false')",
    "shell('condor_status -schedd -af MyType')",
    "shell('condor_status -none-such')",
    "shell('condor_suspend C')",
    "shell('condor_continue C')",
    "shell('condor_tail 99.0')",
    "shell('condor_transfer_data C')",
    "shell('condor_who')[0]",
    "shell('condor_userprio -none-such')[0]",
    "shell('condor_wait')[0]",
    "shell('htcondor job status C')[0]",
    "shell('htcondor job resources E')",
    "shell('htcondor ap status')[0]",
    "shell('htcondor job submit idle.sub')[0]",
]


def surface(_: "Script") -> Iterator[tuple[str, Callable[[], object]]]:
    """Names of the bindings."""
    for name, names in CLASSES.items():
        made = getattr(htcondor2, name, None)
        yield name, lambda made=made: type(made).__name__  # type: ignore[misc]
        for method in names.split():

            def parameters(made: object = made, method: str = method) -> object:
                return _parameters(getattr(made, method))

            yield f"{name}.{method}", parameters
    for name in ENUMS.split():
        yield name, lambda name=name: {one.name: int(one) for one in getattr(htcondor2, name)}  # type: ignore[misc]


def _parameters(function: Callable[..., object]) -> list[str]:
    """The parameters that a program can give: names, and whether each has a default.

    A parameter that may be given by its name alone is one that the other side may lack.
    """
    found = inspect.signature(function).parameters.values()
    return [
        one.name + ("" if one.default is inspect.Parameter.empty else "=")
        for one in found
        if one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    ]


class Script:
    """Runs steps, and knows the clusters of the present part."""

    def __init__(self, share: int) -> None:
        self._share = share
        self._number = itertools.count()
        self.schedd: Any = htcondor2.Schedd()
        self.answers: list[tuple[str, str, object]] = []
        self.names: dict[str, Any] = {
            "b": htcondor2,
            "classad2": classad2,
            "schedd": self.schedd,
            "shell": self.shell,
            "pathlib": pathlib,
            "re": re,
        }
        self.clusters: dict[str, int] = {}

    def made(self, name: str, description: str, count: int = 1) -> int:
        """Submit the cluster that the next steps call by a name."""
        self.clusters[name] = int(self.schedd.submit(htcondor2.Submit(description), count).cluster())
        return self.clusters[name]

    def meant(self, text: str) -> str:
        return re.sub(r"\b[CDE]\b", lambda found: str(self.clusters.get(found[0], found[0])), text)

    def step(self, kind: str, text: str, do: Callable[[], object]) -> None:
        """Answer one step, if it is of this run's share."""
        if next(self._number) % self._share:
            return
        try:
            answer = plain(do())
        except Exception as error:
            answer = {"raises": [one.__name__ for one in type(error).__mro__], "text": str(error)}
        self.answers.append((kind, text, answer))

    def shell(self, line: str) -> list[object]:
        """A command's exit status, output and messages, each line without blanks at its end."""
        ended = subprocess.run(
            ["sh", "-c", self.meant(line)],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        return [ended.returncode, ended.stdout, ended.stderr]

    def expressions(self, kind: str, texts: list[str]) -> None:
        for text in texts:
            self.step(kind, text, lambda text=text: eval(self.meant(text), self.names))  # type: ignore[misc]

    def commands(self, kind: str, lines: list[str]) -> None:
        for line in lines:
            self.step(kind, line, lambda line=line: self.shell(line))  # type: ignore[misc]

    def until(self, condition: Callable[[], object]) -> None:
        end = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(inspect.getsource(condition))
            time.sleep(0.1)

    # the parts

    def surface(self) -> None:
        for name, do in surface(self):
            self.step("surface", name, do)

    def submits(self) -> None:
        plain_ad = self._submitted(IDLE)
        self.step("submit", "a job's attributes", lambda: sorted(plain_ad))
        for name in ATTRIBUTES.split():
            self.step("submit", f"the attribute {name}", lambda name=name: plain_ad[name])  # type: ignore[misc]
        for line in SUBMIT_LINES:
            self.step("submit", line, lambda line=line: self._changed(plain_ad, line))  # type: ignore[misc]
        self.commands("condor_submit", SUBMIT_COMMANDS)
        self.schedd.act(htcondor2.JobAction.Remove, "true")

    def _submitted(self, text: str) -> dict[str, str]:
        cluster = self.schedd.submit(htcondor2.Submit(text)).cluster()
        (ad, *_) = self.schedd.query(f"ClusterId == {cluster}")
        self.schedd.act(htcondor2.JobAction.Remove, f"ClusterId == {cluster}")
        return {name: str(ad.lookup(name)) for name in ad}

    def _changed(self, before: dict[str, str], line: str) -> dict[str, str | None]:
        """The attributes by which a job with one more line differs from one without it."""
        ad = self._submitted(f"{IDLE}{line}\n")
        names = sorted(before.keys() | ad.keys())
        return {name: ad.get(name) for name in names if ad.get(name) != before.get(name)}

    def queries(self) -> None:
        described = f"{IDLE}Mine_0 = 1\n"
        text = described.replace("Mine_0 = 1", "MY.Mine = ifThenElse(ProcId == 0, 1, undefined)")
        cluster = self.made("C", text, 3)
        self.schedd.edit(f"{cluster}.0", "JobPrio", "5")
        self.schedd.edit(f"{cluster}.0", "Mine", "1")
        # 25.14's bindings pass on a reason only with its subcode
        self.schedd.act(htcondor2.JobAction.Hold, f"{cluster}.1", ("a test", 3))
        self.names |= {"A": f"ClusterId == {cluster}", "CLUSTER": cluster}
        for constraint in CONSTRAINTS:
            asked = re.sub(r"\bA\b", str(cluster), constraint).strip()
            value = {"None": None, '""': ""}.get(asked, asked)

            def selected(value: str | None = value) -> object:
                ads = self.schedd.query(value, ["ClusterId", "ProcId"])
                return [ad["ProcId"] for ad in ads if ad["ClusterId"] == cluster]

            self.step("query", constraint, selected)
        for names in PROJECTIONS:

            def projected(names: Any = names) -> object:
                ads = self.schedd.query(f"ClusterId == {cluster} && ProcId < 2", names)
                return [sorted(ad.keys()) for ad in ads] if names else len(ads)

            self.step("query", f"projection {names!r}", projected)
        self.expressions("query", QUERIES)
        self.commands("condor_q", Q_COMMANDS)

    def acts(self) -> None:
        for part in ("bindings", "commands"):
            first = self.made("C", f"{IDLE}log = acts.log\n", 4)
            second = self.made("D", IDLE, 2)
            if part == "commands":
                self.commands("act by commands", ACT_COMMANDS)
                continue

            def meant(spec: Any, first: int = first, second: int = second) -> Any:
                if isinstance(spec, list):
                    return [meant(one) for one in spec]
                if spec == 0:
                    return first
                if not isinstance(spec, str):
                    return spec
                numbers = {"A": str(first), "B": str(second)}
                return re.sub(r"\b[AB]\b", lambda found: numbers[found[0]], spec)

            def states(first: int = first) -> object:
                names = ["ProcId", "JobStatus", "HoldReason", "HoldReasonCode", "HoldReasonSubCode"]
                return self.schedd.query(f"ClusterId == {first}", names)

            for action, spec, reason in ACTS:

                def acted(action: str = action, spec: Any = spec, reason: Any = reason) -> object:
                    answer = self.schedd.act(getattr(htcondor2.JobAction, action), meant(spec), reason)
                    # a schedd answers before removed jobs have left its queue
                    self.until(lambda: not self.schedd.query("JobStatus == 3", ["ProcId"]))
                    return answer

                self.step("act", f"{action} {spec!r} {reason!r}", acted)
                if action == "Hold":
                    self.step("act", f"the jobs after {action} {spec!r} {reason!r}", states)
        self.schedd.act(htcondor2.JobAction.Remove, "true")

    def edits(self) -> None:
        cluster = self.made("C", IDLE, 2)
        self.names["CLUSTER"] = cluster
        for name, value in EDITS:

            def edited(name: str = name, value: Any = value) -> object:
                number = self.schedd.edit(f"{cluster}.0", name, value)
                (ad,) = self.schedd.query(f"ClusterId == {cluster} && ProcId == 0")
                return [number, str(ad.lookup(name)) if name in ad else None]

            self.step("edit", f"{name} = {value!r}", edited)
        self.expressions("edit", EDIT_CALLS)
        self.commands("condor_qedit", EDIT_COMMANDS)
        self.schedd.act(htcondor2.JobAction.Remove, "true")

    def ends(self) -> None:
        text = f"{ENDS}log = ends.log\narguments = \"-c 'exit $(Process)'\"\n"
        ended = self.made("C", f"{text}hold = true\n", 3)
        self.clusters["E"] = ended
        for proc in range(3):
            # one after the other
            self.schedd.act(htcondor2.JobAction.Release, f"{ended}.{proc}")
            self._until_ended(ended, proc + 1)
        removed = self.made("D", f"{IDLE}log = removed.log\n")
        for action, name in (("Hold", "JOB_HELD"), ("Release", "JOB_RELEASED"), ("Remove", "JOB_ABORTED")):
            self.schedd.act(getattr(htcondor2.JobAction, action), f"{removed}.0", (f"to {action}", 0))
            self._until_logged("removed.log", name)
        self._until_logged("ends.log", "JOB_TERMINATED", 3)
        self._until_ended(removed, 1)

        def first(kind: str, events: Any = None) -> Any:
            return next(one for one in events or self.names["events"] if one.type.name == kind)

        self.names |= {
            "E": f"ClusterId == {ended}",
            "R": f"ClusterId == {removed}",
            "R_ID": f"{removed}.0",
            # the sizes of a job come when its host measures them
            "events": [one for one in self._events("ends.log") if one.type.name != "IMAGE_SIZE"],
            "removed": self._events("removed.log"),
            "first": first,
        }

        self.clusters.pop("E")
        self.expressions("history", HISTORY)
        self.commands("condor_history", HISTORY_COMMANDS)
        self.expressions("event log", LOG)
        self.clusters["E"] = ended

    def _until_ended(self, cluster: int, number: int) -> None:
        self.until(lambda: len(self.schedd.history(f"ClusterId == {cluster}")) == number)

    def _until_logged(self, path: str, name: str, number: int = 1) -> None:
        self.until(lambda: [one.type.name for one in self._events(path)].count(name) == number)

    def _events(self, path: str) -> list[Any]:
        try:
            return list(htcondor2.JobEventLog(path).events(0))
        except htcondor2.HTCondorException:
            return []

    def others(self) -> None:
        self.made("C", IDLE)
        self.expressions("other", OTHERS)
        self.schedd.act(htcondor2.JobAction.Remove, "true")


def plain(value: Any) -> object:
    """A value as JSON."""
    if isinstance(value, classad2.ClassAd | htcondor2.JobEvent):
        return {name: plain(value.get(name)) for name in sorted(value.keys(), key=str.lower)}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    if value is None or type(value) in (str, int, float, bool):
        return value
    return str(value)


def main() -> None:
    folder = pathlib.Path(os.environ.get("FIDELITY_FOLDER", "."))
    os.chdir(folder)
    for name, text in {
        "idle.sub": f"{IDLE}queue\n",
        "queueless.sub": IDLE,
        "wrong.sub": f"{IDLE}priority = (\nqueue\n",
        "unused.sub": f"{IDLE}requrements = 1\nqueue\n",
        "a.dag": "JOB A idle.sub\n",
    }.items():
        pathlib.Path(name).write_text(text)
    script = Script(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    for part in ("surface", "submits", "queries", "acts", "edits", "ends", "others"):
        getattr(script, part)()
    # the bindings print messages of their own
    pathlib.Path("answers.json").write_text(json.dumps(script.answers))


if __name__ == "__main__":
    main()
