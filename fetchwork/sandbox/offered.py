"""Whether a job runs in a sandbox on a host, and the ad that offers it there."""

from collections.abc import Mapping, Sequence

from fetchwork.sandbox import names

#: tells the hooks that the job has a sandbox
MARK = "FetchWorkSandbox"
#: tells PREPARE_JOB that the job needs credentials
CREDENTIALS = "FetchWorkCredentials"
#: submit's attribute about a job's files, for matching; FILES.md has its values
FILES = "FetchWorkFiles"
_SHARED = "shared:"
#: lists that would take half of the ad: PREPARE_JOB gets them from the agent
_LISTS = frozenset(
    name.lower()
    for name in (
        "TransferInput", "PublicInputFiles", "TransferOutput", "TransferOutputRemaps", "OutputDestination",
        "FailureFiles", "TransferPlugins", "TransferInputRemaps",
    )
)  # fmt: skip


def may_run(files: object, shared: Sequence[str]) -> bool:
    """Whether a job with this FetchWorkFiles may be offered on a host that shares these directories."""
    if not isinstance(files, str):
        return True
    if files.startswith(_SHARED):
        return all(lies_under(directory, shared) for directory in files.removeprefix(_SHARED).split(","))
    return True


def has_sandbox(ad: Mapping[str, object], shared: Sequence[str]) -> bool:
    """Whether a job runs in a sandbox on a host that shares these directories."""
    files = ad.get(FILES)
    if files == "sandbox":
        return True
    return files == "stored" and not all(lies_under(path, shared) for path in _paths(ad))


def has_credentials(ad: Mapping[str, object]) -> bool:
    """Whether a job needs credentials in its scratch directory."""
    services = ad.get("OAuthServicesNeeded")
    return isinstance(services, str) and services.strip(" ,\t\n") != ""


def offered(ad: Mapping[str, object]) -> dict[str, object]:
    """The ad of a job with a sandbox: without the paths that the starter would look for on the host."""
    out, err = ad.get("Out"), ad.get("Err")
    changed = {
        name: value for name, value in ad.items() if name.lower() not in _LISTS and name.lower() != "iwd"
    }
    if executable_travels(ad):
        changed["Cmd"] = names.EXECUTABLE
    stdin = ad.get("In")
    if isinstance(stdin, str) and stdin not in ("", names.NULL_FILE) and ad.get("TransferIn") is not False:
        changed["In"] = names.name_of_url(stdin) if names.scheme_of(stdin) else names.base_name(stdin)
    if _travels(out, ad.get("TransferOut")):
        changed["Out"] = names.STDOUT
    if _travels(err, ad.get("TransferErr")):
        changed["Err"] = names.STDOUT if err == out and "Out" in changed else names.STDERR
    changed[MARK] = True
    return changed


def at_remote_iwd(ad: Mapping[str, object]) -> Mapping[str, object]:
    """The ad of a job without a sandbox, as the starter of fetched work needs it for remote_initialdir.

    The starter knows one directory of a job, but the job runs in RemoteIwd and its paths are relative to Iwd.
    """
    remote, iwd = ad.get("RemoteIwd"), ad.get("Iwd")
    if not isinstance(remote, str):
        return ad
    changed = {**ad, "Iwd": remote}
    for name in ("Cmd", "In", "Out", "Err"):
        path = ad.get(name)
        if isinstance(path, str) and path and isinstance(iwd, str):
            changed[name] = path if path.startswith("/") else f"{iwd}/{path}"
    return changed


def executable_travels(ad: Mapping[str, object]) -> bool:
    """Whether the job brings its executable along."""
    return ad.get("TransferExecutable") is not False


def lies_under(path: str, directories: Sequence[str]) -> bool:
    """Whether a path, by its text, is one of the directories or lies in one."""
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in directories)


def _paths(ad: Mapping[str, object]) -> list[str]:
    """Every absolute path that the job names, without URLs."""
    iwd = ad.get("Iwd")
    named = [iwd, ad.get("In"), ad.get("Out"), ad.get("Err"), *names.words_of(ad.get("TransferInput"))]
    if executable_travels(ad):
        named.append(ad.get("Cmd"))
    return [
        path for path in named if isinstance(path, str) and path.startswith("/") and path != names.NULL_FILE
    ]


def _travels(path: object, wanted: object) -> bool:
    return isinstance(path, str) and path not in ("", names.NULL_FILE) and wanted is not False
