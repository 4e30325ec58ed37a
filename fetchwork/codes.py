"""HTCondor's numbers, each defined once: plain integers, because they travel in ads and in SQL.

The names are those of HTCondor's own headers.
"""

from __future__ import annotations

# hooks of jobs with a sandbox read this, and would pay for it
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


class JobStatus:
    """The state of a job (``JobStatus``; condor_utils/proc.h)."""

    IDLE: Final = 1
    RUNNING: Final = 2
    REMOVED: Final = 3
    COMPLETED: Final = 4
    HELD: Final = 5
    TRANSFERRING_OUTPUT: Final = 6
    SUSPENDED: Final = 7
    # a schedd's alone: a job of this queue is never in these states, and the bindings lack them
    FAILED: Final = 8
    BLOCKED: Final = 9
    PREPARING: Final = 10


#: the names that condor_q and condor_history print
STATUS_NAMES: Final = {
    JobStatus.IDLE: "Idle",
    JobStatus.RUNNING: "Running",
    JobStatus.REMOVED: "Removed",
    JobStatus.COMPLETED: "Completed",
    JobStatus.HELD: "Held",
    JobStatus.TRANSFERRING_OUTPUT: "TransferringOutput",
    JobStatus.SUSPENDED: "Suspended",
    JobStatus.FAILED: "Failed",
    JobStatus.BLOCKED: "Blocked",
    JobStatus.PREPARING: "Preparing",
}


class HoldCode:
    """The reason for a hold (``HoldReasonCode``; condor_utils/condor_holdcodes.h)."""

    UNSPECIFIED: Final = 0
    USER_REQUEST: Final = 1
    JOB_POLICY: Final = 3
    CORRUPTED_CREDENTIAL: Final = 4
    JOB_POLICY_UNDEFINED: Final = 5
    FAILED_TO_CREATE_PROCESS: Final = 6
    UNABLE_TO_OPEN_OUTPUT: Final = 7
    UNABLE_TO_OPEN_INPUT: Final = 8
    TRANSFER_OUTPUT_ERROR: Final = 12
    TRANSFER_INPUT_ERROR: Final = 13
    IWD_ERROR: Final = 14
    SUBMITTED_ON_HOLD: Final = 15
    HOOK_PREPARE_JOB_FAILURE: Final = 19
    FAILED_TO_ACCESS_USER_ACCOUNT: Final = 23
    MAX_TRANSFER_INPUT_SIZE: Final = 32
    MAX_TRANSFER_OUTPUT_SIZE: Final = 33
    JOB_OUT_OF_RESOURCES: Final = 34
    SINGULARITY_TEST_FAILED: Final = 45
    JOB_DURATION_EXCEEDED: Final = 46
    JOB_EXECUTE_EXCEEDED: Final = 47


class EventType:
    """Types of job events (``EventTypeNumber``; condor_utils/condor_event.h) that fetched work has."""

    SUBMIT: Final = 0
    EXECUTE: Final = 1
    EXECUTABLE_ERROR: Final = 2
    JOB_EVICTED: Final = 4
    JOB_TERMINATED: Final = 5
    IMAGE_SIZE: Final = 6
    GENERIC: Final = 8
    JOB_ABORTED: Final = 9
    JOB_SUSPENDED: Final = 10
    JOB_UNSUSPENDED: Final = 11
    JOB_HELD: Final = 12
    JOB_RELEASED: Final = 13
    CLUSTER_SUBMIT: Final = 35
    CLUSTER_REMOVE: Final = 36
    FACTORY_PAUSED: Final = 37
    FACTORY_RESUMED: Final = 38


class Universe:
    """Types of jobs (``JobUniverse``; condor_utils/condor_universe.h) that fetchwork runs."""

    VANILLA: Final = 5
    SCHEDULER: Final = 7
    LOCAL: Final = 12


class HookStatus:
    """PREPARE_JOB's answer about a job (``HookStatusCode``): 0 go on, 1-299 hold, from 300 on try again."""

    SUCCESS: Final = 0
    #: a code of "try again": a schedd would not hold the job for it
    NOT_NOW: Final = 350
