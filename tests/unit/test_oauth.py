"""SERVICE_oauth_permissions and SERVICE_oauth_resource: their form in the queue."""

import pytest

from fetchwork.errors import SubmitError
from fetchwork.queue.submitting.descriptions import from_description
from fetchwork.queue.submitting.unused import unused

DESCRIPTION = "executable = /bin/true\nuse_oauth_services = box, Drive\n{}\nqueue 2\n"


def said(commands: str) -> object:
    jobs = from_description(DESCRIPTION.format(commands), cluster_id=1, owner="alice")
    assert not any("FetchWorkOAuthRequests" in own for own in jobs.own)
    return jobs.common.get("FetchWorkOAuthRequests")


@pytest.mark.parametrize(
    ("commands", "found"),
    [
        ("", None),
        ("box_oauth_permissions =", None),
        ("S = /work\nbox_oauth_permissions = read:$(S), write:/x", ["box", "read:/work, write:/x", ""]),
        ("BOX_OAuth_Resource = https://a/", ["box", "", "https://a/"]),
        (
            "drive_oauth_permissions_h = a\ndrive_oauth_resource_h = b\nbox_oauth_permissions = c",
            ["Drive_h", "a", "b", "box", "c", ""],
        ),
        # of a service that the job does not use
        ("other_oauth_permissions = a", None),
    ],
)
def test_what_a_description_says_of_its_credentials_comes_into_the_ad(
    commands: str, found: list[str] | None
) -> None:
    assert said(commands) == found
    assert unused(DESCRIPTION.format(commands)) == []


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("box_oauth_options = x", "no issuer is asked"),
        ("box_oauth_options_h = x", "no issuer is asked"),
        ('box_oauth_permissions = a" b', "without quotes"),
        ("box_oauth_resource = a\\\\b", "without quotes"),
    ],
)
def test_what_nobody_could_honour_is_refused_by_name(command: str, problem: str) -> None:
    with pytest.raises(SubmitError, match=f"command '{command.partition(' ')[0]} = .*{problem}"):
        said(command)
