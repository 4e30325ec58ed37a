"""The directories in which jobs' accounts leave files for the agent, and the right to read these files.

Every account may write into such a directory, of mode 3733, and only the agent may list it. The sticky bit
protects each account's files from the others. The setgid bit gives all files in it the agent's group: an
agent that is not root reads by this group, so no file has to be open to other accounts.
"""

from __future__ import annotations

import errno
import os
import stat


def let_agent_read(made: str | int, directory: str) -> None:
    """Let the agent alone read a directory or file that this account has just made in ``directory``.

    ``made`` is a path or a descriptor, of mode 700 or 600 so far. Raises OSError if the agent could not read
    it.
    """
    above, status = os.stat(directory), os.stat(made)
    if above.st_uid in (0, os.geteuid()):
        return
    if not above.st_mode & stat.S_ISGID or status.st_gid != above.st_gid:
        raise OSError(errno.EPERM, "the directory does not hand its group down (its mode has to be 3733)")
    os.chmod(made, 0o770 if stat.S_ISDIR(status.st_mode) else 0o640)
