"""HTCondor's numbers, against those of its bindings."""

import pytest

from fetchwork import codes
from fetchwork.classad.bindings import JobEventType, JobStatus
from fetchwork.condor.printing.renderers import STATUS_CHARS


def numbers(of: type) -> dict[str, int]:
    return {name: number for name, number in vars(of).items() if name.isupper()}


def test_job_status_is_that_of_the_bindings() -> None:
    theirs = {status.name: status.value for status in JobStatus}
    assert numbers(codes.JobStatus) == {**theirs, "FAILED": 8, "BLOCKED": 9, "PREPARING": 10}
    assert set(codes.STATUS_NAMES) == set(numbers(codes.JobStatus).values()) == set(STATUS_CHARS)


@pytest.mark.parametrize(("name", "number"), numbers(codes.EventType).items())
def test_event_type_is_that_of_the_bindings(name: str, number: int) -> None:
    assert JobEventType[name] == number  # type: ignore[misc, valid-type]
