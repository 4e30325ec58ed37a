"""The table of submit commands agrees with the code."""

import os

import pytest

from fetchwork.db.calls import credentials
from fetchwork.queue import sealing
from fetchwork.queue.session import Session
from fetchwork.queue.submitting import descriptions
from tests.commands import submit_table


@pytest.fixture
def asking(session: Session) -> Session:
    """A session of a queue with a credential, which use_oauth_services asks for."""
    session.database.run(credentials.publish_credential_key(public_key=b"k" * 32))
    sealing.add(session, "box", b"token", owner="alice")
    return session


def test_the_table_says_what_becomes_of_each_command(asking: Session) -> None:
    rows = [submit_table.what_becomes_of(asking, name, value) for name, value in submit_table.samples()]
    made = submit_table.document(rows)
    if os.environ.get("FETCHWORK_WRITE_TABLE"):
        submit_table.DOCUMENT.write_text(made)
    assert len(rows) > 200
    assert submit_table.DOCUMENT.read_text() == made


def test_a_hint_has_a_reason_why_it_harms_nobody(asking: Session) -> None:
    rows = [submit_table.what_becomes_of(asking, name, value) for name, value in submit_table.samples()]
    assert [row.name for row in rows if row.becomes == "hint" and not row.why] == []


@pytest.mark.parametrize("name", sorted(descriptions.UNREAD))
def test_a_command_that_the_bindings_do_not_know_is_refused_by_name(name: str) -> None:
    from fetchwork.errors import SubmitError

    with pytest.raises(SubmitError, match=f"(?i){name}.*can't be honoured"):
        descriptions.from_description(
            f"executable = /bin/true\n{name} = 1\nqueue\n", cluster_id=1, owner="alice"
        )


@pytest.mark.parametrize(
    ("lines", "asks"),
    [
        ("should_transfer_files = NO\n", False),
        ("should_transfer_files = NO\nrequirements = Memory > 5\n", False),
        ('should_transfer_files = NO\n+FileSystemDomain = "here"\n', True),
        ('should_transfer_files = NO\nMY.FileSystemDomain = "here"\n', True),
        ('should_transfer_files = NO\nrequirements = TARGET.FileSystemDomain == "there"\n', True),
    ],
)
def test_a_job_is_tied_to_a_file_system_domain_only_where_it_names_one(lines: str, asks: bool) -> None:
    jobs = descriptions.from_description(
        f"{lines}executable = /bin/true\nqueue\n", cluster_id=1, owner="alice"
    )
    assert ("FileSystemDomain" in jobs.common["Requirements"]) is asks
