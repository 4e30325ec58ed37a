"""Parts that both series of the bindings share."""

from __future__ import annotations

import contextlib
import getpass
import socket
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Never, Protocol

from fetchwork.client.link import socket_path
from fetchwork.errors import FetchworkError

if TYPE_CHECKING:
    from fetchwork.classad.values import ClassAd
    from fetchwork.queue.synchronous import Queue

#: classes without a daemon here -> the substitute
NO_DAEMON = {
    "Startd": "hosts fetch their work; Collector.query(AdTypes.Startd) has the slots",
    "RemoteParam": "there is no daemon whose configuration could be asked for; param has this host's",
    "SecurityContext": "the account, or the database's role, decides what a program may do",
    "Claim": "hosts fetch their work; no client claims slots",
}
#: classes with some methods only -> the substitute for the others
_NOT_OF = {
    "Credd": "'fetchwork credential' stores, lists and deletes the tokens that jobs show to services",
    "Negotiator": "hosts match jobs by themselves; 'fetchwork prio' sets factors and limits",
}
#: methods of Schedd without a meaning here -> the reason
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
    **dict.fromkeys(("get_claims", "negotiate"), "hosts fetch their work; no client claims slots"),
    "daemonHistory": "there are no daemons with a history of their own",
    "refreshGSIProxy": "fetched work has no X.509 proxies",
    "insert_jobs": "submit takes ads as well",
}


class Ad(Protocol):
    """An ad of either series of the bindings, as far as this module uses it."""

    def __setitem__(self, name: str, value: object) -> None: ...


def keeps_logs() -> bool:
    """Whether an access point writes event logs, so that programs can read the files."""
    return socket_path() is not None


def absent(module: ModuleType, name: str, reason: str) -> type:
    """Return a substitute for a class without a meaning here; making an object of it raises the reason."""

    def refuse(self: object, *_: object, **__: object) -> None:
        raise module.HTCondorException(
            f"{module.__name__}.{name} has no meaning in a fetchwork queue: {reason}"
        )

    return type(name, (), {"__init__": refuse, "__doc__": f"Not there: {reason}."})


def of_daemons(
    module: ModuleType, queue: Callable[[], Queue], ad: Callable[[ClassAd], object]
) -> dict[str, type]:
    """Return Credd and Negotiator with the methods that the queue has; all others raise the reason.

    ``queue`` makes the queue, ``ad`` makes an ad of this series of the bindings.
    """

    def add(
        self: object,
        credtype: object,
        credential: bytes,
        service: str,
        handle: str | None = None,
        user: str | None = None,
        refresh: bool | None = None,
    ) -> None:
        if not credential or refresh:
            raise ValueError(
                "credential may not be empty, or one to be refreshed: 'fetchwork credential add'"
            )
        queue().add_credential(service, credential, handle=handle or "", owner=_account(user))

    def delete(
        self: object, credtype: object, service: str, handle: str | None = None, user: str | None = None
    ) -> None:
        queue().delete_credential(service, handle=handle or "", owner=_account(user))

    def priorities(self: object, rollup: bool = False) -> list[object]:
        return [ad(one) for one in queue().submitters()]

    methods: dict[str, dict[str, object]] = {
        "Credd": {"add_user_service_cred": add, "delete_user_service_cred": delete},
        "Negotiator": {"getPriorities": priorities},
    }
    made = {}
    for name, own in methods.items():
        others = {
            method: refusing(module, f"{name}.{method}", _NOT_OF[name])
            for method in dir(getattr(module, name))
            if not method.startswith("_")
        }
        made[name] = type(name, (), {"__init__": lambda self, location=None: None, **others, **own})
    return made


def _account(user: str | None) -> str | None:
    return user.partition("@")[0] if user else None


def refusing(module: ModuleType, name: str, reason: str) -> Callable[..., Never]:
    """Return a substitute for a function or method without a meaning here, which raises the reason."""

    def refuse(*_: object, **__: object) -> Never:
        raise module.HTCondorException(
            f"{module.__name__}: {name} has no meaning in a fetchwork queue: {reason}"
        )

    refuse.__name__ = name
    return refuse


@contextlib.contextmanager
def raising(error_class: type[Exception]) -> Iterator[None]:
    """Raise the queue's errors as an exception of the bindings."""
    try:
        yield
    except FetchworkError as error:
        if isinstance(error, error_class):
            raise
        raise error_class(str(error)) from error


def ping_ad(make: Callable[[], Ad]) -> Ad:
    """Return the answer to a ping: this account is known and authorized."""
    ad = make()
    ad["AuthorizationSucceeded"] = True
    ad["AuthCommand"] = 60002
    ad["MyRemoteUserName"] = f"{getpass.getuser()}@{socket.getfqdn()}"
    return ad
