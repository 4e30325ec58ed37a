"""The ads in a job's scratch directory: PREPARE_JOB replaces the starter's with the agent's.

The starter of a fetched job leaves .machine.ad empty, and writes .job.ad before PREPARE_JOB. The hook runs
as the job's user, who owns the directory. Only PREPARE_JOB imports this.
"""

import posix

_SEPARATOR = b"-----\n"
#: in the order in which the agent sends them
_FILES = (".machine.ad", ".job.ad")


def write(body: bytes) -> tuple[bytes, str]:
    """Write the ads that follow the changes to the job's ad; return the changes, and the problem or "".

    A file is replaced only if the starter has written it.
    """
    changes, *ads = (b"\n" + body).split(b"\n" + _SEPARATOR)
    problem = ""
    for name, ad in zip(_FILES, ads, strict=False):
        try:
            posix.unlink(name)
            fd = posix.open(name, posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_CLOEXEC, 0o644)
            view = memoryview(ad if ad.endswith(b"\n") else ad + b"\n")
            while view:
                view = view[posix.write(fd, view) :]
            posix.fchmod(fd, 0o644)
            posix.close(fd)
        except FileNotFoundError:
            continue
        except OSError as exc:
            problem = f"cannot write '{name}': {exc.strerror}"
    # the line break before the separator belongs to the last line
    return (changes[1:] + b"\n" if ads and changes else changes[1:]), problem
