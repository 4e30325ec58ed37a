"""``SERVICE_oauth_permissions`` and ``SERVICE_oauth_resource``: a description's requests for its credentials.

HTCondor's submit sends these to its credd, which refuses a job whose stored credential has other ones. Only
the handles get into the ad (``build_oauth_service_ads`` in submit_utils.cpp). Here the requests are written
into the ad, and the database compares them (``check_credentials.sql``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from fetchwork.errors import SubmitError

if TYPE_CHECKING:
    from fetchwork.queue.submitting.readers import Commands

__all__ = ["is_command", "marked"]

_COMMAND = re.compile(r"(.+)_oauth_(permissions|resource|options)(?:_(.+))?", re.I)
#: attribute of the ad: name, permissions and resource of each credential, one after the other
_ATTRIBUTE = "FetchWorkOAuthRequests"


def is_command(name: str) -> bool:
    """Whether the command with this name is about a credential."""
    return _COMMAND.fullmatch(name) is not None


def marked(commands: Commands) -> Iterator[tuple[str, str]]:
    """The command to add to a description that has requests for its credentials.

    Raises SubmitError for requests that can't be compared.
    """
    asked: dict[str, dict[str, str]] = {}
    services = {name.lower(): commands[name] for name in commands.keys()}.get("use_oauth_services", "")  # noqa: SIM118 - has no __iter__
    known = {service.lower(): service for service in re.split(r"[\s,]+", services.strip()) if service}
    for name in commands.keys():  # noqa: SIM118
        found = _COMMAND.fullmatch(name)
        value = commands[name].strip()
        service = known.get(found[1].lower()) if found is not None else None
        if found is None or service is None or not value:
            continue
        if found[2].lower() == "options":
            raise SubmitError(
                f"command '{name} = {value[:60]}' can't be honoured: no issuer is asked for a token when"
                " a job is submitted; allowed: leave it out"
            )
        if '"' in value or "\\" in value:
            raise SubmitError(
                f"command '{name} = {value[:60]}' is refused; allowed: words without quotes and backslashes"
            )
        credential = f"{service}_{found[3]}" if found[3] else service
        asked.setdefault(credential, {})[found[2].lower()] = value
    if asked:
        words = [
            word
            for credential, said in sorted(asked.items())
            for word in (credential, said.get("permissions", ""), said.get("resource", ""))
        ]
        yield f"MY.{_ATTRIBUTE}", "{" + ", ".join(f'"{word}"' for word in words) + "}"
