"""The output of condor_q: its table, filled job by job and printed at the end."""

from __future__ import annotations

import itertools
import operator
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fetchwork.condor.arguments import Usage, octets, text_of
from fetchwork.condor.invocation import Invocation
from fetchwork.condor.printing import printformat
from fetchwork.condor.printing.adforms import AdList
from fetchwork.condor.printing.autoformat import (
    InvalidExpression,
    add_autoformat,
    add_format,
    append_autoformat,
)
from fetchwork.condor.printing.columns import NotShown, PrintMask, names_in, names_read
from fetchwork.condor.printing.jobtable import JobTable, cells_of
from fetchwork.condor.printing.printedad import PrintedAd, PrintedValue, unparse_value
from fetchwork.condor.printing.renderers import (
    PRINT_AS,
    PrintAs,
    render_dag_owner,
    render_memory_usage,
    render_owner,
)
from fetchwork.condor.q import qformats, qrows, qwidths
from fetchwork.condor.q.qcounts import OF_TIME, Counts, wall_clock_time
from fetchwork.condor.q.qoptions import QOptions

if TYPE_CHECKING:
    from fetchwork.queue.reading.views import Json


class Shown:
    """The tables and their parts, filled job by job and printed at the end."""

    def __init__(self, run: Invocation, options: QOptions) -> None:
        self.run, self.options = run, options
        self.mask, self.summary_mask = PrintMask(), PrintMask()
        self.title = self.header = self.footer = True
        self.standard_summary = False
        self.group_by: list[str] = []
        self.names: set[str] | None = None
        self._widest_owner = 0
        self._largest_memory = 0.0
        self._rows: dict[tuple[int, int], qrows.JobRow] = {}
        self._keys: dict[str, tuple[int, int]] = {}
        self.counts = Counts()
        self.time: int | None = None
        self.list = AdList(options.form or "long")
        self.wide = options.wide or (run.columns < 0 and not options.width)
        # HTCondor's tables of its own making are trimmed, those of the user's only where they are wide
        self.trims = options.wide if options.custom else self.wide
        self.standard = False
        self.table = ""
        self._choose()

    @property
    def columns(self) -> int:
        """Return the width that was given, else that of the terminal."""
        return self.options.width or (self.run.columns if self.run.columns > 0 else 80)

    @property
    def batches(self) -> bool:
        """Whether it shows the table of batches, for which the first job of each cluster is enough."""
        return not self.options.custom and self.options.form is None and self.table == "batch"

    # the output

    def _choose(self) -> None:
        options = self.options
        if options.totals and options.form is None and not options.formats:
            self._read(qformats.FORMATS["totals"])
        if options.formats:
            self._add_formats()
        elif options.print_format is not None:
            wide, width = options.format_width
            if not (wide or (self.run.columns < 0 and not width)):
                self.mask.overall_width = (width or self.columns) - 1
            self._read(self._lines_of(options.print_format))
        if options.batch and options.formats:
            raise Usage("Error: -batch conflicts with -format and -af")
        if options.form is not None:
            self.title = self.header = False
            self.footer = options.totals
            return
        if options.autoclusters and options.batch:
            raise Usage("Error: -batch conflicts with -autocluster")
        if options.group_by and options.batch:
            raise Usage("Error: -batch conflicts with -group-by")
        if options.batch is None:
            plain = options.table == "" and not options.custom and not options.hold
            options.batch = plain and not (
                options.run or options.idle or options.autoclusters or options.group_by or options.stream
            )
        if not options.custom and options.table != "totals":
            self._standard_table()
        self._append()

    def _standard_table(self) -> None:
        options = self.options
        table = options.table
        if options.batch and table not in ("io", "grid", "grid:ec2"):
            table = "batch"
        elif not table:
            if options.autoclusters:
                table = "autocluster"
            elif options.hold:
                table = "hold"
            elif options.dag:
                table = "dag"
            else:
                table = "run" if options.run else "idle" if options.idle else "default"
        if options.hold or options.appended:
            self.wide = self.trims = True
        if not self.wide:
            self.mask.overall_width = self.columns - 1
        self.standard = table not in ("batch", "autocluster")
        self.table = table
        named = "CPU_TIME" if options.cputime else "RUN_TIME"
        self._read(line.replace("{time}", named) for line in qformats.FORMATS[table])

    def _add_formats(self) -> None:
        options = self.options
        mask = self.summary_mask if options.totals else self.mask
        for option, first, *rest in options.formats:
            if option == "format":
                add_format(mask, first, rest[0])
                continue
            try:
                add_autoformat(mask, first, rest)
            except InvalidExpression:
                # HTCondor stops there and prints the jobs so far
                break
        self.title, self.footer = False, options.totals
        self.header = bool(mask.headings) and not options.totals
        self.names = names_read(mask.columns) | {"ClusterId", "ProcId"}

    def _lines_of(self, file: str) -> list[str]:
        if file == "-":
            return octets(self.run.stdin.read().decode("utf-8", "surrogateescape")).splitlines()
        try:
            return self.run.path(text_of(file)).read_bytes().decode("latin-1").splitlines()
        except OSError:
            name = text_of(file)
            message = f"Can't open select file: {name}\nError: invalid select file {name}"
            raise Usage(message) from None

    def _read(self, lines: Iterable[str]) -> None:
        local = {
            "OWNER": replace(PRINT_AS["OWNER"], renderer=self._owner),
            "DAG_OWNER": replace(PRINT_AS["DAG_OWNER"], renderer=self._dag_owner),
            "CPU_TIME": PrintAs(float, self._time, format="%T", reads=OF_TIME),
            "MEMORY_USAGE": replace(PRINT_AS["MEMORY_USAGE"], renderer=self._memory),
            **self.run.renderers,
        }
        found = printformat.read(lines, self.mask, self.summary_mask, local)
        for message in found.messages:
            self.run.complain(text_of(message) + "\n")
        self.title, self.header = found.title and not self.options.alone, found.header
        self.footer = found.summary is not None
        self.standard_summary = bool(found.summary)
        self.group_by += found.group_by
        if found.where:
            self.options.all_of.append(found.where)
        if found.unique:
            self.options.group_by = True
        self.options.autoclusters = self.options.autoclusters or found.autoclusters
        self.names = names_read(self.mask.columns).union(_OF_EACH, *map(names_in, self.group_by))

    def _append(self) -> None:
        options = self.options
        if not options.appended:
            return
        if options.batch:
            raise Usage(
                "Error: -aaf cannot be used with -batch mode output (the default),"
                " did you intend to use -af ?"
            )
        if options.formats or options.totals:
            raise Usage("Error: output formatting options conflict with -aaf options")
        for _, letters, *words in options.appended:
            if letters.strip("TVYr"):
                raise Usage(
                    f"Error: {letters} is invalid -aaf format qualifier."
                    " only one of V,r,T, or Y is permitted."
                )
            append_autoformat(self.mask, letters, words)
            self.names = (self.names or set()) | names_read(self.mask.columns)

    # renderers that know the whole table

    def _owner(self, value: PrintedValue, ad: PrintedAd) -> PrintedValue:
        name = render_owner(value, ad)
        self._widest_owner = max(self._widest_owner, len(str(name)))
        return name

    def _dag_owner(self, value: PrintedValue, ad: PrintedAd) -> PrintedValue:
        if self.options.dag and "DAGManJobId" in ad and ad.string("DAGNodeName") is not None:
            name = render_dag_owner(value, ad)
            self._widest_owner = max(self._widest_owner, len(str(name)) + 3)
            return name
        return self._owner(value, ad)

    def _memory(self, value: PrintedValue, ad: PrintedAd) -> PrintedValue:
        used = render_memory_usage(value, ad)
        assert isinstance(used, float)
        self._largest_memory = max(self._largest_memory, used)
        return used

    def _time(self, value: PrintedValue, ad: PrintedAd) -> PrintedValue:
        cpu = ad.real("RemoteUserCpu")
        if cpu is None:
            raise NotShown
        return cpu if self.options.cputime else wall_clock_time(ad, current_run=self.options.current_run)

    # jobs

    def add(self, ads: Sequence[PrintedAd]) -> None:
        """Take jobs."""
        if self.options.form is None:
            # a table that is printed as it comes knows the width of earlier rows alone
            for page in ([ad] for ad in ads) if self.options.stream else [ads]:
                self.add_table(JobTable.of(page))
            return
        self.counts.add(JobTable.of(ads))
        for ad in () if self.options.totals else ads:
            self.run.write(self.list.ad(ad, self.options.attributes or None))

    def add_table(self, table: JobTable) -> None:
        """Take the jobs of a table."""
        if self.options.form is not None or (self.options.stream and table.jobs > 1):
            self.add([PrintedAd(json) for json in table.ads()])
            return
        if self.footer:
            self.counts.add(table)
        if self.time is None and table.jobs:
            self.time = PrintedAd(table.json(0)).integer("ServerTime")
        if not table.jobs or not self.mask.columns:
            return
        rows = self.mask.rows(table)
        if self.options.stream:
            self.run.write("".join(self.mask.lines(rows)))
            return
        parts = (table.clusters or itertools.repeat(None), cells_of(table, qrows.fold_of))
        for (cluster, proc), row, jobs, fold in zip(self._ids(table), rows, *parts, strict=False):
            if (cluster, proc) in self._rows:
                self.run.complain("Error: Two results with the same ID.\n")
            else:
                self._rows[cluster, proc] = qrows.JobRow(cluster, proc, row, fold, jobs)
        if self.group_by:
            self._group(table)

    def _group(self, table: JobTable) -> None:
        for json, (cluster, proc) in zip(table.ads(), self._ids(table), strict=True):
            values = map(PrintedAd(json).evaluate, self.group_by)
            key = "".join(f"{unparse_value(value)}\n" for value in values)
            self._keys[f"{key}{cluster << 32 | proc & 0xFFFFFFFF:016X}"] = cluster, proc

    def _ids(self, table: JobTable) -> Iterable[tuple[int, int]]:
        clusters, procs = table.integers("ClusterId"), table.integers("ProcId")
        if clusters is None or procs is None or self.options.autoclusters or self.options.group_by:
            return (self._id(PrintedAd(json)) for json in table.ads())
        return zip(clusters, procs, strict=True)

    def _id(self, ad: PrintedAd) -> tuple[int, int]:
        if self.options.autoclusters or self.options.group_by:
            id = ad.integer("AutoClusterId" if self.options.autoclusters else "Id")
            return 0, id or 0
        cluster, proc = ad.integer("ClusterId"), ad.integer("ProcId")
        return (2**31 - 1 if cluster is None else cluster), (-1 if proc is None else proc)

    # printing

    def begin(self, label: str) -> None:
        """Print the heading lines."""
        if self.options.form is not None:
            return
        if self.title:
            moment = time.localtime(self.time if self.time is not None else time.time())
            self.run.write(f"\n\n-- {octets(label)}{time.strftime(' @ %m/%d/%y %H:%M:%S', moment)}\n")
        if self.header and self.mask.headings:
            self.run.write(self.mask.heading_line())

    def end(self, label: str, summary: Json) -> None:
        """Print the rows, the headings and the totals."""
        options = self.options
        if options.form is None and not options.stream:
            self._arrange()
            self.begin(label)
            for line in self.mask.lines([job.row for job in self._ordered()]):
                trimmed = self.trims and line[-1:] == "\n"
                self.run.write(line[:-1].rstrip(" \t\v\f\r") + "\n" if trimmed else line)
        if self.footer:
            self._print_summary(PrintedAd(summary))
        if options.form is not None:
            self.run.write(self.list.footer())

    def batch_rows(self) -> list[qrows.JobRow]:
        """The rows of the table of batches."""
        self._arrange()
        return list(self._ordered())

    def _ordered(self) -> Iterator[qrows.JobRow]:
        if self._keys:
            yield from (self._rows[self._keys[key]] for key in sorted(self._keys))
        elif self.options.dag and not self.options.batch:
            printed: set[tuple[int, int]] = set()

            def family(job: qrows.JobRow) -> Iterator[qrows.JobRow]:
                printed.add(job.id)
                yield job
                # jobs may name each other as their DAG
                for child in job.children:
                    if child.id not in printed:
                        yield from family(child)

            for id in sorted(self._rows):
                if id not in printed:
                    yield from family(self._rows[id])
        else:
            # they are in the order of their ids
            yield from (job for job in self._rows.values() if job.shown)

    def _arrange(self) -> None:
        options = self.options
        if not self._rows:
            return
        self._rows = dict(sorted(self._rows.items(), key=operator.itemgetter(0)))
        if self.batches:
            self._rows = qrows.clusters_of(self._rows.values())
        if options.batch or options.dag:
            qrows.link(self._rows, batches=bool(options.batch))
        if options.hold and options.table == "holdcodes" and not options.custom:
            qrows.fold_holds(self._rows, self._keys)
        elif self.batches:
            qrows.fold(
                self._rows,
                self.mask,
                partial=options.partial or any(proc >= 0 for _, proc in options.ids),
                wide=self.wide,
                columns=self.columns,
                zero=options.zero,
            )
        elif self.standard and not options.custom:
            qwidths.fit(
                self._rows.values(),
                self.mask.columns,
                qwidths.Table(self.table, self.wide, bool(options.dag), self.columns),
                owner=self._widest_owner,
                memory=self._largest_memory,
            )

    def _print_summary(self, summary: PrintedAd) -> None:
        text = "" if self.options.totals else "\n"
        if self.options.form is not None:
            self.run.write(self.list.ad(summary))
            return
        if self.standard_summary:
            self.summary_mask = PrintMask()
            lines = qformats.summary_format(summary.string("MyName"), everyone=not self.options.alone)
            printformat.read(lines, self.summary_mask, PrintMask())
            self.summary_mask.headings = []
        if self.summary_mask.headings:
            self.run.write(self.summary_mask.heading_line())
        self.run.write(text + "".join(self.summary_mask.lines([self.summary_mask.row(summary)])) + "\n")


#: attributes of every table's jobs: their ids, states and batches, and the time of the answer
_OF_EACH = frozenset(
    [
        "ClusterId", "ProcId", "JobStatus", "JobUniverse", "Owner", "ServerTime",
        "DAGManJobId", "DAGNodeName", "JobBatchName",
    ]
)  # fmt: skip
