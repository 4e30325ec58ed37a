"""Names of files: in the sandbox, in URLs, and those of HTCondor itself."""

#: the starter's files for the job's output and errors
STDOUT = "_condor_stdout"
STDERR = "_condor_stderr"
EXECUTABLE = "condor_exec.exe"
#: PREPARE_JOB's notes in the sandbox for JOB_EXIT
NOTES = ".fetchwork.files"
#: the progress of a job that saves checkpoints
PROGRESS = ".fetchwork.checkpoint"
#: HTCondor's name for the manifest of a checkpoint at its destination; the checkpoint's number follows
MANIFEST = "_condor_checkpoint_MANIFEST."
#: the directory of such a checkpoint until it is known to be whole
INCOMING = ".fetchwork.incoming"
NULL_FILE = "/dev/null"

#: the starter's files, which never are a job's output (jic_shadow.cpp)
OF_THE_STARTER = frozenset(
    (
        ".job.ad", ".machine.ad", ".execution_overlay.ad", ".update.ad", ".update.ad.tmp", ".docker_sock",
        *(
            ".docker_stdout",
            ".docker_stderror",
            ".condor_container_launched",
            ".chirp.config",
            NOTES,
            PROGRESS,
        ),
        f"{PROGRESS}.new",
    )
)  # fmt: skip
#: schemes of objects in buckets, which are presigned as https URLs if the job has a key
PRESIGNED = frozenset(("s3", "gs"))
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789+-.")


def scheme_of(name: str) -> str:
    """The scheme of a URL in lower case, empty for a name that is no URL (``IsUrl``)."""
    scheme, colon, _ = name.partition("://")
    scheme = scheme.lower()
    return scheme if colon and scheme and scheme[0].isalpha() and _LETTERS.issuperset(scheme) else ""


def name_of_url(url: str) -> str:
    """The sandbox file name for a URL: the last component of its path, without the query."""
    path = url.partition("://")[2].partition("?")[0].partition("#")[0]
    return path.rpartition("/")[2]


def base_name(path: str) -> str:
    """The last part of a path; trailing slashes do not count."""
    return path.rstrip("/").rpartition("/")[2]


def problem_of(name: str) -> str:
    """Why a name may not be used inside a sandbox; empty if it may (``LegalPathInSandbox``)."""
    if not name:
        return "is empty"
    if name.startswith("/"):
        return "is an absolute path"
    if ".." in name.split("/"):
        return "has '..' in it"
    if "\0" in name:
        return "holds a NUL"
    try:
        name.encode()
    except UnicodeEncodeError:
        return "is not UTF-8"
    return ""


def words_of(value: object) -> list[str]:
    """The names in a job ad's list of files: commas separate them, blanks around them are trimmed."""
    return [word for part in value.split(",") if (word := part.strip())] if isinstance(value, str) else []
