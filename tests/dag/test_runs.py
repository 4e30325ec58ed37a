"""DAGs run over the queue by HTCondor's own condor_dagman."""

from tests.dag.sides import Queue, Schedd

DIAMOND = """\
JOB A node.sub
JOB B node.sub
JOB C node.sub
JOB D node.sub
PARENT A CHILD B C
PARENT B C CHILD D
"""


def test_a_diamond_runs_in_its_order(queue: Queue, schedd: Schedd) -> None:
    theirs = schedd.start(DIAMOND)
    ours = queue.start(DIAMOND)
    assert ours.wait() == 0, ours.tail
    assert ours.noted()[0] == "A"
    assert sorted(ours.noted()[1:3]) == ["B", "C"]
    assert ours.noted()[3:] == ["D"]
    assert theirs.wait() == 0, theirs.tail
