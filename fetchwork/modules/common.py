"""What both series of the bindings have in common."""

from __future__ import annotations

import contextlib
import getpass
import socket
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Never, Protocol

from fetchwork.client.link import socket_path
from fetchwork.errors import FetchworkError

#: what there is no daemon for -> what to use
NO_DAEMON = {
    "Negotiator": "hosts match jobs by themselves; Collector.query(AdTypes.Submitter) has the shares",
    "Startd": "hosts fetch their work; Collector.query(AdTypes.Startd) has the slots",
    "Credd": "fetched work has no credentials",
    "RemoteParam": "there is no daemon whose configuration could be asked for; param has this host's",
    "SecurityContext": "the account, or the database's role, decides what a program may do",
    "Claim": "hosts fetch their work; nobody claims slots",
}
#: methods of Schedd that mean nothing here -> why
NO_METHOD = {
    **dict.fromkeys(
        ("export_jobs", "import_exported_job_results", "unexport_jobs"), "the queue is a database"
    ),
    "spool": "input files are stored at submit in any case; say should_transfer_files = YES",
    **dict.fromkeys(("queryProjectAds", "queryUserAds", "query_users"), "users are accounts of the hosts"),
    **dict.fromkeys(
        ("enable_users", "enable_users_matching", "disable_users", "disable_users_matching"),
        "users are accounts of the hosts",
    ),
    **dict.fromkeys(("get_claims", "negotiate"), "hosts fetch their work; nobody claims slots"),
    "daemonHistory": "there are no daemons with a history of their own",
    "refreshGSIProxy": "fetched work has no X.509 proxies",
    "insert_jobs": "submit takes ads as well",
}


class Ad(Protocol):
    """An ad of either series of the bindings, as far as it is looked at here."""

    def __setitem__(self, name: str, value: object) -> None: ...


def keeps_logs() -> bool:
    """Whether an access point writes event logs, so that files are there to be read."""
    return socket_path() is not None


def absent(module: ModuleType, name: str, reason: str) -> type:
    """A class in the place of one that has no meaning here: to make an object raises one clear sentence."""

    def refuse(self: object, *_: object, **__: object) -> None:
        raise module.HTCondorException(
            f"{module.__name__}.{name} has no meaning in a fetchwork queue: {reason}"
        )

    return type(name, (), {"__init__": refuse, "__doc__": f"Not there: {reason}."})


def refusing(module: ModuleType, name: str, reason: str) -> Callable[..., Never]:
    """A function or method in the place of one that has no meaning here."""

    def refuse(*_: object, **__: object) -> Never:
        raise module.HTCondorException(
            f"{module.__name__}: {name} has no meaning in a fetchwork queue: {reason}"
        )

    refuse.__name__ = name
    return refuse


@contextlib.contextmanager
def raising(error_class: type[Exception]) -> Iterator[None]:
    """What the queue refuses or can't do, as an exception of the bindings."""
    try:
        yield
    except FetchworkError as error:
        if isinstance(error, error_class):
            raise
        raise error_class(str(error)) from error


def ping_ad(make: Callable[[], Ad]) -> Ad:
    """What a ping says: this account is known, and may."""
    ad = make()
    ad["AuthorizationSucceeded"] = True
    ad["AuthCommand"] = 60002
    ad["MyRemoteUserName"] = f"{getpass.getuser()}@{socket.getfqdn()}"
    return ad
