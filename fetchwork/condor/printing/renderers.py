"""The functions that a print format names (``PRINTAS JOB_ID``): the text of a column.

A renderer is given the value of its column's attribute and the whole ad, and raises NotShown where the column
has nothing to show. A formatter is given the value alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from fetchwork.condor.arguments import octets
from fetchwork.condor.printing.columns import Column, NotShown, Renderer
from fetchwork.condor.printing.printedad import (
    ERROR,
    UNDEFINED,
    PrintedAd,
    PrintedValue,
    Unparsed,
    unparse_value,
)
from fetchwork.condor.printing.printf import format_date, format_time, metric_units

#: the letter of each JobStatus; another number is a blank
STATUS_CHARS = {1: "I", 2: "R", 3: "X", 4: "C", 5: "H", 6: ">", 7: "S", 8: "F", 9: "B", 10: "P"}

_STATUS_WORDS = {
    1: "Idle   ",
    2: "Running",
    3: "Removed",
    4: "Complet",
    5: "Held   ",
    6: "XFerOut",
    7: "Suspend",
    8: "Failed ",
    9: "Blocked",
    10: "Preparing",
}

_UNIVERSES = {
    1: "Standard",
    2: "Pipe",
    3: "Linda",
    4: "PVM",
    5: "Vanilla",
    6: "PVMD",
    7: "Scheduler",
    8: "MPI",
    9: "Grid",
    10: "Java",
    11: "Parallel",
    12: "Local",
    13: "VM",
}

SCHEDULER, GRID, LOCAL = 7, 9, 12


def render_job_id(value: PrintedValue, ad: PrintedAd) -> PrintedValue:
    """Cluster and process with a dot between them."""
    cluster = ad.integer("ClusterId")
    if cluster is None:
        return _known(ad.string("JobId"))
    proc = ad.integer("ProcId")
    return f"{cluster}.-1" if proc is None else f"{cluster}.{proc}"


def _known(text: str | None) -> str:
    if text is None:
        raise NotShown
    return text


def render_owner(value: PrintedValue, ad: PrintedAd) -> PrintedValue:
    """Return the job's owner."""
    return _known(ad.string("Owner"))


def render_batch_name(value: PrintedValue, ad: PrintedAd) -> PrintedValue:
    """Return the name of its batch or, in a DAG, its substitute."""
    name = ad.string("JobBatchName")
    if name is not None:
        return name
    if ad.integer("JobUniverse") == SCHEDULER:
        return f"DAG: {ad.integer('ClusterId') or 0}"
    if "DAGManJobId" in ad:
        node = ad.string("DAGNodeName")
        if node is not None:
            return f"NODE: {node}"
    raise NotShown


def render_dag_owner(value: PrintedValue, ad: PrintedAd) -> PrintedValue:
    """The node's name of a job of a DAG, else the owner."""
    if "DAGManJobId" in ad:
        node = ad.string("DAGNodeName")
        if node is not None:
            return node
    return render_owner(value, ad)


def render_job_status(value: PrintedValue, ad: PrintedAd) -> PrintedValue:
    """The letter of the state, and signs of transfers of files."""
    status = ad.integer("JobStatus")
    if status is None:
        raise NotShown
    first, second = STATUS_CHARS.get(status, " "), " "
    queued = ad.truth("TransferQueued")
    if ad.truth("TransferringInput"):
        first, second = "<", "q" if queued else " "
    if ad.truth("TransferringOutput") or status == 6:
        first, second = "q" if queued else " ", ">"
    return first + second


def render_memory_usage(value: PrintedValue, ad: PrintedAd) -> PrintedValue:
    """Megabytes: MemoryUsage, else ImageSize, which is in kilobytes."""
    used = ad.integer("MemoryUsage")
    if used is not None:
        return float(used)
    size = ad.integer("ImageSize")
    if size is None:
        raise NotShown
    return size / 1024.0


def render_job_description(value: PrintedValue, ad: PrintedAd) -> PrintedValue:
    """The job's description in parentheses, else its command without the folder, and its arguments."""
    command = _known(ad.string("Cmd"))
    description = ad.string("MATCH_EXP_JobDescription")
    if description is None:
        description = ad.string("JobDescription")
    if description:
        return f"({description})"
    arguments = _arguments_shown(ad)
    name = command.rpartition("/")[2]
    return f"{name} {arguments}" if arguments else name


def render_command_and_arguments(value: PrintedValue, ad: PrintedAd) -> PrintedValue:
    """The command as it was given, with its arguments."""
    command = _known(ad.string("Cmd"))
    arguments = ad.string("Args")
    if arguments is None:
        arguments = ad.string("Arguments")
    return command if arguments is None else f"{command} {arguments}"


def _arguments_shown(ad: PrintedAd) -> str:
    """The arguments as HTCondor shows them: of the newer form each one, a blank in it quoted."""
    new = ad.string("Arguments")
    if new is None:
        return ad.string("Args") or ""
    return new


def render_remote_host(value: PrintedValue, ad: PrintedAd) -> PrintedValue:
    """Return the host that the job runs on."""
    if ad.integer("JobUniverse") == GRID:
        machine = ad.string("EC2RemoteVirtualMachineName")
        return machine if machine is not None else _known(ad.string("GridResource"))
    return _known(ad.string("RemoteHost"))


def render_io_misc(value: PrintedValue, ad: PrintedAd) -> PrintedValue:
    """Return the directions of the file transfers in progress."""
    names = {"TransferringInput": "in", "TransferringOutput": "out", "TransferQueued": "queued"}
    going = [word for name, word in names.items() if ad.truth(name)]
    return f" transfer={','.join(going)}" if going else ""


def render_grid_status(value: PrintedValue, ad: PrintedAd) -> PrintedValue:
    """The state of a job that is on a grid."""
    text = ad.string("GridJobStatus")
    if text is not None:
        return text
    number = ad.integer("GridJobStatus")
    if number is None:
        raise NotShown
    words = {1: "IDLE", 2: "RUNNING", 3: "REMOVED", 4: "COMPLETED", 5: "HELD", 6: "XFER_OUT", 7: "SUSPENDED"}
    words |= {8: "FAILED", 9: "BLOCKED", 10: "PREPARING"}
    return words.get(number, str(number))


def render_grid_job_id(value: PrintedValue, ad: PrintedAd) -> PrintedValue:
    """The job's id on its grid, without the host."""
    text = _known(ad.string("GridJobId"))
    start = text.rfind(" ") + 1
    scheme = text.find("://", start)
    after = scheme + 3 if scheme >= 0 else start
    slash = text.find("/", after)
    return text[slash if slash >= 0 else after :]


def render_grid_resource(value: PrintedValue, ad: PrintedAd) -> PrintedValue:
    """The type, manager and host of a grid."""
    text = _known(ad.string("GridResource"))
    grid, blank, rest = text.partition(" ")
    if not blank:
        grid, rest = "globus", text
    where, blank, manager = rest.partition(" ")
    if not blank:
        manager = "[?]"
        found = rest.find("jobmanager-")
        if found >= 0:
            where, manager = rest[:found], rest[found + 11 :]
    host = re.split("[:/]", where.partition("://")[2] or where)[0]
    if grid == "ec2":
        return f"{grid} {ad.string('EC2RemoteVirtualMachineName') or host}"
    return f"{grid}->{manager.replace(' ', '/')} {host}"


def render_member_count(value: PrintedValue, ad: PrintedAd) -> PrintedValue:
    """Return the number of members of a list, or of a text of words."""
    if type(value) is str:
        return len([word for word in re.split(r"[,\s]+", value) if word])
    if isinstance(value, Unparsed) and value.startswith("{"):
        return len(_members(value))
    raise NotShown


def render_strings_from_list(value: PrintedValue, ad: PrintedAd) -> PrintedValue:
    """The texts of a list, with commas between them."""
    if not (isinstance(value, Unparsed) and value.startswith("{")):
        raise NotShown
    return ", ".join(octets(member) for member in _members(value) if isinstance(member, str))


def render_unique(value: PrintedValue, ad: PrintedAd) -> PrintedValue:
    """The different members of a list, or of a text of words, sorted."""
    if type(value) is str:
        return ", ".join(sorted({word for word in re.split(r"[,\s]+", value) if word}))
    if not (isinstance(value, Unparsed) and value.startswith("{")):
        raise NotShown
    members = {
        octets(member) if isinstance(member, str) else _member_text(member) for member in _members(value)
    }
    return ", ".join(sorted(members))


def _members(value: Unparsed) -> list[object]:
    from fetchwork.classad import values
    from fetchwork.condor.arguments import text_of
    from fetchwork.condor.printing.printedad import expression

    found = values.evaluate(values.ClassAd(), expression(text_of(value)))
    return found if isinstance(found, list) else []


def _member_text(member: object) -> str:
    from fetchwork.classad.values import ClassAd

    holder = ClassAd()
    holder["x"] = member
    return octets(str(holder.printOld()).removeprefix("x = ").removesuffix("\n"))


# formatters


def _whole(value: PrintedValue) -> int:
    return int(value) if isinstance(value, int | float) else 0


def format_status_word(value: PrintedValue) -> str:
    """A state as a word."""
    return _STATUS_WORDS.get(_whole(value), "Unk    ")


def format_universe(value: PrintedValue) -> str:
    """A universe's name."""
    return _UNIVERSES.get(_whole(value), "Unknown")


def format_readable(scale: float) -> Callable[[PrintedValue], str]:
    """A number of bytes, or of ``scale`` bytes, with its unit."""

    def format(value: PrintedValue) -> str:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return " " * 8
        return metric_units(value * scale)

    return format


def format_seconds(value: PrintedValue) -> str:
    """Seconds as days, hours, minutes and seconds."""
    return format_time(_whole(value))


def format_moment(value: PrintedValue) -> str:
    """A moment as month, day, hour and minute."""
    return format_date(_whole(value))


def format_load(value: PrintedValue) -> str:
    """A load to three digits."""
    return f"{value:.3f}" if isinstance(value, int | float) else ""


def format_factory_mode(value: PrintedValue) -> str:
    """Return the state of a job factory."""
    if value is UNDEFINED:
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "????"
    return {-1: "Errs", 0: "Norm", 1: "Held", 2: "Done", 3: "Gone"}.get(int(value), "Unk")


@dataclass(frozen=True)
class PrintAs:
    """A function of a print format: how its column is set up."""

    renders: type | None
    renderer: Renderer | None = None
    formatter: Callable[[PrintedValue], str] | None = None
    format: str | None = None
    #: the attributes that it reads beside that of its column
    reads: tuple[str, ...] = ()

    def apply(self, column: Column) -> None:
        """Let a column show it."""
        column.renders, column.renderer, column.formatter = self.renders, self.renderer, self.formatter
        column.reads = self.reads


_TRANSFERS = ("TransferringInput", "TransferringOutput", "TransferQueued")

#: the names that PRINTAS and RENDERAS take
PRINT_AS: dict[str, PrintAs] = {
    "BATCH_NAME": PrintAs(
        str,
        render_batch_name,
        reads=("JobBatchName", "JobUniverse", "ClusterId", "DAGManJobId", "DAGNodeName"),
    ),
    "BUFFER_IO_MISC": PrintAs(str, render_io_misc, reads=_TRANSFERS),
    "DAG_OWNER": PrintAs(str, render_dag_owner, reads=("DAGManJobId", "DAGNodeName", "Owner")),
    "DATE": PrintAs(int, formatter=format_moment),
    "GRID_JOB_ID": PrintAs(str, render_grid_job_id, reads=("GridJobId",)),
    "GRID_RESOURCE": PrintAs(
        str, render_grid_resource, reads=("GridResource", "EC2RemoteVirtualMachineName")
    ),
    "GRID_STATUS": PrintAs(str, render_grid_status, reads=("GridJobStatus",)),
    "JOB_COMMAND": PrintAs(str, render_command_and_arguments, reads=("Cmd", "Args", "Arguments")),
    "JOB_DESCRIPTION": PrintAs(
        str,
        render_job_description,
        reads=("Cmd", "Args", "Arguments", "JobDescription", "MATCH_EXP_JobDescription"),
    ),
    "JOB_FACTORY_MODE": PrintAs(None, formatter=format_factory_mode),
    "JOB_ID": PrintAs(str, render_job_id, reads=("ClusterId", "ProcId", "JobId")),
    "JOB_STATUS": PrintAs(str, render_job_status, reads=("JobStatus", *_TRANSFERS)),
    "JOB_STATUS_RAW": PrintAs(int, formatter=format_status_word),
    "JOB_UNIVERSE": PrintAs(int, formatter=format_universe),
    "LOAD_AVG": PrintAs(float, formatter=format_load),
    "MEMBER_COUNT": PrintAs(None, render_member_count, format="%d"),
    "MEMORY_USAGE": PrintAs(float, render_memory_usage, format="%.1f", reads=("MemoryUsage", "ImageSize")),
    "OWNER": PrintAs(str, render_owner, reads=("Owner",)),
    "QDATE": PrintAs(int, formatter=format_moment, format="%Y"),
    "READABLE_BYTES": PrintAs(None, formatter=format_readable(1.0)),
    "READABLE_KB": PrintAs(None, formatter=format_readable(1024.0)),
    "READABLE_MB": PrintAs(None, formatter=format_readable(1024.0 * 1024.0)),
    "REMOTE_HOST": PrintAs(
        str,
        render_remote_host,
        reads=("RemoteHost", "JobUniverse", "GridResource", "EC2RemoteVirtualMachineName"),
    ),
    "RUNTIME": PrintAs(float, formatter=format_seconds),
    "STRINGS_FROM_LIST": PrintAs(None, render_strings_from_list),
    "TIME": PrintAs(int, formatter=format_seconds),
    "UNIQUE": PrintAs(None, render_unique),
}

__all__ = ["ERROR", "PRINT_AS", "PrintAs", "unparse_value"]
