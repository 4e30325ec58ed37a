"""The checks of HTCondor's own tests of its bindings, applied to fetchwork.

``test_schedd_submit`` is in tests/condor/test_beside_a_schedd.py, with a real schedd as the oracle;
``test_python_bindings_jobeventlog`` is in tests/queue/test_api.py and tests/unit/test_userlog.py.
"""

from typing import Any

import pytest
from classad2 import ExprTree

from tests.queue.conftest import Queue

# -- test_num_holds


def test_holds_are_counted_by_reason_and_the_last_one_is_remembered(queue: Queue) -> None:
    """A job that its own policy holds at each end, released in between."""
    job = queue.direct.submit(OnExitHold=True)
    for _ in range(2):
        queue.direct.act("release", job)
        queue.direct.finish(
            queue.direct.started(),
            verdict={"action": "hold", "code": 3, "subcode": 0, "reason": "OnExitHold"},
        )
    (ad,) = queue.query()
    assert (ad["HoldReasonCode"], ad["HoldReasonSubCode"]) == (3, 0)
    assert (ad["LastHoldReasonCode"], ad["LastHoldReasonSubCode"]) == (3, 0)
    assert ad["NumHolds"] == 2
    assert dict(ad["NumHoldsByReason"]) == {"JobPolicy": 2}


# -- test_job_spec_hack


CASES: dict[str, tuple[Any, list[str]]] = {
    "list_all_clusters": (["1", "2", "3"], ["1.0", "1.1", "2.0", "2.1", "3.0", "3.1"]),
    "list_all_pairs": (["3.0", "3.1", "4.0"], ["3.0", "3.1", "4.0"]),
    "list_mixed": (["5.0", "6", "6.1"], ["5.0", "6.0", "6.1"]),
    "int": (7, ["7.0", "7.1"]),
    "exprtree": (ExprTree("ClusterID == 8"), ["8.0", "8.1"]),
    "str_cluster": ("9", ["9.0", "9.1"]),
    "str_pair": ("10.0", ["10.0"]),
    "str_expr": ("ClusterID == 11 && ProcID == 1", ["11.1"]),
}


@pytest.mark.parametrize("name", CASES)
def test_every_form_of_a_job_spec_edits_its_jobs(queue: Queue, name: str) -> None:
    for _ in range(11):
        queue.direct.submit_many([{}] * 2)
    spec, expected = CASES[name]
    assert queue.edit(spec, name, '"valid"') == len(expected)
    ads = queue.query(projection=["ClusterID", "ProcID", name])
    assert [f"{ad['ClusterId']}.{ad['ProcId']}" for ad in ads if name in ad] == expected
    assert {ad[name] for ad in ads if name in ad} == {"valid"}


@pytest.mark.parametrize(
    ("spec", "value", "error"),
    [(7.5, "7.5", TypeError), (["a", "b"], "1", ValueError), ("a!b", '"a!b"', ValueError)],
)
def test_what_is_no_job_spec_raises_as_in_the_bindings(
    queue: Queue, spec: Any, value: str, error: type[Exception]
) -> None:
    queue.direct.submit()
    with pytest.raises(error):
        queue.edit(spec, "Mine", value)
    assert queue.query("Mine isnt undefined") == []
