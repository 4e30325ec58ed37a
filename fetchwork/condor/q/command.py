"""condor_q: the jobs in the queue, or those of a file of ads, as HTCondor shows them."""

from __future__ import annotations

from fetchwork.condor.arguments import text_of
from fetchwork.condor.invocation import Invocation
from fetchwork.condor.printing.printedad import NotAnExpression, PrintedAd, accepting
from fetchwork.condor.q.qoptions import QOptions, constraint_of, parse
from fetchwork.condor.q.shown import Shown


def main(run: Invocation) -> int:
    """Run the command; returns its exit status."""
    return show(run, parse(run.words()))


def show(run: Invocation, options: QOptions) -> int:
    """Show the jobs that the options ask for; returns the exit status."""
    if options.analyze:
        from fetchwork.condor.q.analysis import analyze

        return analyze(run, options)
    shown = Shown(run, options)
    if options.ads_file is not None:
        return _of_file(run, options, shown)
    from fetchwork.condor.q.qsource import of_every_queue, of_queue

    if options.global_:
        return of_every_queue(run, options)
    return of_queue(run, options, shown)


def _of_file(run: Invocation, options: QOptions, shown: Shown) -> int:
    from fetchwork.condor.printing import adfiles

    assert options.ads_file is not None
    name = text_of(options.ads_file)
    constraint = constraint_of(options)
    try:
        accepts = accepting(constraint)
    except NotAnExpression:
        run.complain(f"Invalid constraint: {text_of(constraint)}\n")
        accepts = accepting("")
    try:
        data = run.stdin.read() if name == "-" else run.path(name).read_bytes()
    except OSError:
        run.complain(f"Can't open file of ClassAds: {name}\n")
        return 1
    if options.verbose:
        run.complain("Fetching job ads...")
    text = data.decode("utf-8", "replace")
    ads: dict[tuple[int, int], PrintedAd] = {}
    for number, ad in enumerate(ad for ad in adfiles.read(text, options.ads_form) if accepts(ad)):
        cluster, proc = ad.integer("ClusterId"), ad.integer("ProcId")
        if options.autoclusters or options.group_by:
            id = ad.integer("AutoClusterId" if options.autoclusters else "Id")
            key = (2**31 - 1, number) if id is None else (id >> 32, id & 0xFFFFFFFF)
        else:
            key = (2**31 - 1 if cluster is None else cluster, number if proc is None else proc)
        if key in ads:
            run.complain("Error: Two results with the same ID.\n")
            continue
        ads[key] = ad
    if options.verbose:
        run.complain(f" {len(ads)} ads.\n\n")
    if not ads and options.global_:
        run.write(shown.list.footer() if options.form is not None else "")
        return 0
    label = f"Jobads: {name}"
    if options.stream:
        # of a file HTCondor streams nothing
        options.stream = False
    shown.add([ads[key] for key in sorted(ads)])
    shown.end(label, shown.counts.summary())
    return 0
