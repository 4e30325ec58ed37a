"""Autoclusters that hosts could not evaluate: they back off on one host; after two their jobs are held."""

from tests.support.direct_queue import DirectQueue

REASON = "evaluating it takes too long"


def report(queue: DirectQueue, host: str, *autoclusters: int) -> int:
    host_id = queue.host(host)
    queue.call(
        "report_faults",
        host_id=host_id,
        autoclusters=list(autoclusters),
        reasons=[REASON for _ in autoclusters],
    )
    return host_id


def candidates(queue: DirectQueue, host_id: int) -> set[int]:
    rows = queue.call("candidates", host_id=host_id, slot="slot1@x", queues=["default"])
    return {row["autocluster_id"] for row in rows}


def autocluster_of(queue: DirectQueue, job: str) -> int:
    cluster, proc = map(int, job.split("."))
    number: int = queue.value(
        "SELECT autocluster_id FROM fetchwork.job WHERE cluster_id = %s AND proc_id = %s", cluster, proc
    )
    return number


def test_it_rests_on_the_host_that_says_so_and_only_there(queue: DirectQueue) -> None:
    faulty, fine = queue.submit_many([{"Owner": "alice", "Cmd": "/a"}, {"Owner": "bob", "Cmd": "/b"}])
    number, other = autocluster_of(queue, faulty), autocluster_of(queue, fine)
    host_id = report(queue, "h1", number)
    assert candidates(queue, host_id) == {other}
    second = queue.host("h2")
    assert candidates(queue, second) == {number, other}
    queue.scalar("hold_faulty")
    assert queue.status(faulty) == 1


def test_rest_is_over_after_a_while(queue: DirectQueue) -> None:
    (job,) = queue.submit_many([{"Owner": "alice", "Cmd": "/a"}])
    host_id = report(queue, "h1", autocluster_of(queue, job))
    assert candidates(queue, host_id) == set()
    queue.connection.execute("UPDATE fetchwork.autocluster_fault SET rest_until = now() - interval '1 s'")
    assert candidates(queue, host_id) == {autocluster_of(queue, job)}


def test_jobs_are_held_when_two_hosts_agree_and_others_are_not(queue: DirectQueue) -> None:
    jobs = queue.submit_many([{"Owner": "alice", "Cmd": "/a"} for _ in range(3)])
    (fine,) = queue.submit_many([{"Owner": "bob", "Cmd": "/b"}])
    number = autocluster_of(queue, jobs[0])
    report(queue, "h1", number)
    # the same host twice is one host
    report(queue, "h1", number)
    assert queue.scalar("hold_faulty") == 0
    report(queue, "h2", number)
    assert queue.scalar("hold_faulty") == 3
    assert [queue.status(job) for job in (*jobs, fine)] == [5, 5, 5, 1]
    reasons = {row[0] for row in queue.rows("SELECT holdreason FROM fetchwork.jobs WHERE jobstatus = 5")}
    assert reasons == {f"two hosts could not evaluate the job: {REASON}"}


def test_fault_of_an_autocluster_that_is_gone_is_no_error(queue: DirectQueue) -> None:
    report(queue, "h1", 4711)
    assert queue.value("SELECT count(*) FROM fetchwork.autocluster_fault") == 0


def test_job_that_its_submitter_has_locked_is_passed_over(queue: DirectQueue) -> None:
    locked, free = queue.submit_many([{"Owner": "alice", "Cmd": "/a"} for _ in range(2)])
    number = autocluster_of(queue, locked)
    report(queue, "h1", number)
    report(queue, "h2", number)
    other = queue.another()
    with other.connection.transaction():
        other.connection.execute(
            "SELECT FROM fetchwork.job WHERE cluster_id = %s AND proc_id = %s FOR UPDATE",
            [int(part) for part in locked.split(".")],
        )
        assert queue.scalar("hold_faulty") == 1
    assert (queue.status(locked), queue.status(free)) == (1, 5)
