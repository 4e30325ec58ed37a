"""Parts that both series of the bindings share."""

from __future__ import annotations

import contextlib
import functools
import getpass
import socket
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Never, Protocol

from fetchwork.client.link import socket_path
from fetchwork.errors import FetchworkError
from fetchwork.queue.reading.selecting import names_of
from fetchwork.queue.synchronous import Queue

if TYPE_CHECKING:
    from fetchwork.classad.values import ClassAd

#: classes without a daemon here -> the substitute
_NO_DAEMON = {
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
_NO_METHOD = {
    **dict.fromkeys(
        ("export_jobs", "import_exported_job_results", "unexport_jobs"), "the queue is a database"
    ),
    "spool": "input files are stored at submit in any case; say should_transfer_files = YES",
    **dict.fromkeys(
        ("create_ocu", "get_claims", "negotiate", "query_ocu", "remove_ocu"),
        "hosts fetch their work; no client claims slots",
    ),
    "daemonHistory": "there are no daemons with a history of their own",
    "refreshGSIProxy": "fetched work has no X.509 proxies",
    "insert_jobs": "submit takes ads as well",
}
#: the reason for all methods that are not listed
_USERS = "users are accounts of the hosts"


class Ad(Protocol):
    """An ad of either series of the bindings, as far as this module uses it."""

    def __setitem__(self, name: str, value: object) -> None: ...


#: QueryOpts.AutoCluster, GroupBy and SummaryOnly
_NO_JOBS = 1 | 2 | 8


def replaced(module: ModuleType, schedd: type, ad: Callable[[ClassAd], object]) -> dict[str, object]:
    """Return the names that both series replace alike, and give ``schedd`` the methods that it lacks.

    Each of those methods raises a reason when it is called. ``ad`` makes an ad of this series.
    """
    for method, refuse in _refused(module, "Schedd", dir(schedd), _NO_METHOD, _USERS).items():
        setattr(schedd, method, refuse)
    found: dict[str, object] = {
        **_of_daemons(module, ad),
        **{
            name: _absent(module, name, reason)
            for name, reason in _NO_DAEMON.items()
            if hasattr(module, name)
        },
    }
    for name in ("send_command", "send_alive"):
        found[name] = _refusing(module, name, "there are no daemons to send a command to")
    if socket_path() is None:
        # an access point writes event logs, and programs can read the files
        from fetchwork.following.eventlog import JobEventLog

        found["JobEventLog"] = JobEventLog
    return found


def _absent(module: ModuleType, name: str, reason: str) -> type:
    """Return a substitute for a class without a meaning here: its methods raise the reason."""
    special = ("__getitem__", "__setitem__", "__delitem__", "__iter__", "__len__")
    refused = _refused(module, name, (), {}, reason, special)
    init = {"__init__": lambda self, *_, **__: None, "__doc__": f"Not there: {reason}."}
    return type(name, (), {**refused, **init})


def _refused(
    module: ModuleType,
    name: str,
    own: Collection[str],
    reasons: Mapping[str, str],
    reason: str,
    special: Collection[str] = (),
) -> dict[str, Callable[..., Never]]:
    """The methods of a class of the bindings, without ``own``, each of which raises its reason."""
    original = getattr(module, name)
    return {
        method: _refusing(module, f"{name}.{method}", reasons.get(method, reason), getattr(original, method))
        for method in dir(original)
        if method not in own and (not method.startswith("_") or method in special)
    }


def startd(module: ModuleType, locate: Callable[[], object]) -> type:
    """Return Startd: HTCondor's own, which speaks to the daemon itself, by default to one of the queue's."""

    class Startd(module.Startd):  # type: ignore[misc, name-defined]
        __doc__ = module.Startd.__doc__

        def __init__(self, location: object = None) -> None:
            super().__init__(locate() if location is None else location)

    return Startd


def _of_daemons(module: ModuleType, ad: Callable[[ClassAd], object]) -> dict[str, type]:
    """Return Credd and Negotiator with the methods that the queue has; all others raise the reason."""
    make = module.classad.ClassAd

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
        Queue().add_credential(service, credential, handle=handle or "", owner=_account(user))

    def delete(
        self: object, credtype: object, service: str, handle: str | None = None, user: str | None = None
    ) -> None:
        Queue().delete_credential(service, handle=handle or "", owner=_account(user))

    def priorities(self: object, rollup: bool = False) -> list[object]:
        return [ad(one) for one in Queue().submitters()]

    def set_factor(self: object, user: str, factor: float) -> None:
        if "@" not in user:
            raise ValueError("You must specify the submitter (user@uid.domain)")
        if factor < 1:
            raise ValueError("Priority factors must be >= 1")
        Queue().set_factor(user.partition("@")[0], float(factor))

    def locate(self: object, location: object = None) -> None:
        if location is not None and not isinstance(location, make):
            raise TypeError("location must be a ClassAd")

    methods: dict[str, dict[str, Any]] = {
        "Credd": {"add_user_service_cred": add, "delete_user_service_cred": delete},
        "Negotiator": {"getPriorities": priorities, "setFactor": set_factor},
    }
    return {
        name: type(name, (), {**_refused(module, name, own, {}, _NOT_OF[name]), "__init__": locate, **own})
        for name, own in methods.items()
    }


def _account(user: str | None) -> str | None:
    return user.partition("@")[0] if user else None


def _refusing(
    module: ModuleType, name: str, reason: str, original: Callable[..., object] | None = None
) -> Callable[..., Never]:
    """Return a substitute for a function or method without a meaning here, which raises the reason.

    It has the signature and documentation of the original.
    """

    def refuse(*_: object, **__: object) -> Never:
        raise module.HTCondorException(
            f"{module.__name__}: {name} has no meaning in a fetchwork queue: {reason}"
        )

    refuse.__name__ = name
    return refuse if original is None else functools.wraps(original)(refuse)


def said(reason: object) -> tuple[str, int]:
    """The reason of an action, with the person as a schedd adds it, and its subcode; a tuple has both."""
    text, subcode = reason if isinstance(reason, tuple) else (reason, 0)
    if text is None:
        text = "Python-initiated action"
    if not isinstance(text, str):
        raise TypeError("reason must be a string")
    return f"{text} (by user {getpass.getuser()})", int(subcode)


def with_time(projection: Sequence[str], opts: int) -> Sequence[str]:
    """A projection of jobs' ads with ServerTime, which a schedd adds to each of them."""
    names = names_of(projection)
    return [*names, "ServerTime"] if names and not opts & _NO_JOBS else names


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
