"""Names of files: in the sandbox, of URLs, and those that are HTCondor's own."""

#: where the starter has the job's output and errors
STDOUT = "_condor_stdout"
STDERR = "_condor_stderr"
EXECUTABLE = "condor_exec.exe"
#: what PREPARE_JOB leaves in the sandbox for JOB_EXIT
NOTES = ".fetchwork.files"
#: what a job that saves checkpoints has come to
PROGRESS = ".fetchwork.checkpoint"
#: of a checkpoint at its destination, with its number: HTCondor's name
MANIFEST = "_condor_checkpoint_MANIFEST."
#: where such a checkpoint is until it is known to be whole
INCOMING = ".fetchwork.incoming"
NULL_FILE = "/dev/null"

#: files of the starter's that never are a job's output (jic_shadow.cpp)
OF_THE_STARTER = frozenset(
    (
        *(".job.ad", ".machine.ad", ".execution_overlay.ad", ".update.ad", ".update.ad.tmp", ".docker_sock"),
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
)
#: schemes of objects in buckets, which are presigned as https URLs where the job has a key
PRESIGNED = frozenset(("s3", "gs"))
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789+-.")


def scheme_of(name: str) -> str:
    """The scheme of a URL in lower case, empty for what is no URL (``IsUrl``)."""
    scheme, colon, _ = name.partition("://")
    scheme = scheme.lower()
    return scheme if colon and scheme and scheme[0].isalpha() and _LETTERS.issuperset(scheme) else ""


def name_of_url(url: str) -> str:
    """The name that what a URL is about has in the sandbox: the end of its path, without a query."""
    path = url.partition("://")[2].partition("?")[0].partition("#")[0]
    return path.rpartition("/")[2]


def base_name(path: str) -> str:
    """The last part of a path; trailing slashes do not count."""
    return path.rstrip("/").rpartition("/")[2]


def problem_of(name: str) -> str:
    """Why a name may not be used inside a sandbox; empty where it may (``LegalPathInSandbox``)."""
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
    """The names of a list of files in a job ad: separated by commas, blanks around them are trimmed."""
    return [word for part in value.split(",") if (word := part.strip())] if isinstance(value, str) else []
