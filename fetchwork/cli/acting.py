"""``fetchwork rm``, ``hold``, ``release``, ``vacate``, ``suspend``, ``continue`` and ``edit``.

They are HTCondor's, each target by itself.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import click

from fetchwork.cli import options, output

if TYPE_CHECKING:
    from fetchwork.cli.face import Face
    from fetchwork.condor.act import Acted, Asked
    from fetchwork.queue.remote import AnySession


def command(condor: str, text: str) -> click.Command:
    """Make the command that does as a command of HTCondor."""
    forced = options.passed(
        "-forcex",
        "--forcex",
        help="Do not wait for the processes of running jobs.",
        hidden=condor != "condor_rm",
    )

    @click.command(cls=options.FaceCommand, help=f"{text}\n\nTakes the options of {condor}.")
    @options.words_argument("[JOB|OWNER]...")
    @options.constraint_note
    @options.passed("-all", "--all", help="All jobs that you may change.")
    @options.passed("-held", "--held", help="Held jobs only.")
    @options.passed(
        "-reason", "--reason", metavar="TEXT", help="The reason, kept with the job and in its events."
    )
    @forced
    @options.json_option
    @options.performing
    @click.pass_context
    def cli(context: click.Context, session: AnySession, words: tuple[str, ...], as_json: bool) -> None:
        from fetchwork.cli import face
        from fetchwork.condor import act

        run = face.made(condor, words, session)
        # a wrong word fails before the first change
        asked = face.told(run, lambda: act.parse(run))
        face.checked(asked.all_of)
        run.silent = as_json
        results = [(target, _act(run, target)) for target in asked.each()]
        if as_json:
            output.print_json(
                [
                    {
                        "jobs": target.name,
                        "changed": acted.changed,
                        "not_found": acted.missing,
                        "unchanged": acted.unchanged,
                    }
                    for target, acted in results
                ]
            )
        context.exit(int(asked.invalid or not all(acted.changed for _, acted in results)))

    return cli


def _act(run: Face, asked: Asked) -> Acted:
    """Act on the jobs of one target. With -forcex, jobs that are not being removed yet are removed too."""
    from fetchwork.condor import act

    if asked.action is not act.FORCED:
        (acted,) = act.act(run, asked)
        return acted
    (marked,) = act.act(run, dataclasses.replace(asked, action=act.ACTIONS["condor_rm"]))
    silent, run.silent = run.silent, True
    (left,) = act.act(run, asked)
    run.silent = silent
    return max(marked, left)


rm = command(
    "condor_rm",
    """Remove jobs.

A waiting job is removed at once. A running job is ended by its host, and leaves the
queue when its process is gone: until then its status is X. With -forcex it leaves at once.

\b
Example:
  fetchwork rm 42.0
  fetchwork rm 42 43
  fetchwork rm alice -reason 'wrong input'
  fetchwork rm -constraint 'NumJobStarts > 5'
  fetchwork rm 42.0 -forcex""",
)


hold = command(
    "condor_hold",
    """Hold jobs.

A running job is ended at its next update. Held jobs wait for a slot again after `fetchwork release`.

\b
Example:
  fetchwork hold 42.0 -reason 'waiting for input'
  fetchwork hold -constraint 'RequestMemory > 8192'""",
)


release = command(
    "condor_release",
    """Release held jobs.

\b
Example:
  fetchwork release 42.0
  fetchwork release -constraint 'HoldReasonCode == 6'""",
)


vacate = command(
    "condor_vacate_job",
    """End the runs of running jobs, so that they run again.

Each job is ended at its next update, with its own kill signal and within its own vacate time, and then waits
again.

\b
Example:
  fetchwork vacate 42.0
  fetchwork vacate -constraint 'RemoteHost == "slot1@ep17"'""",
)


suspend = command(
    "condor_suspend",
    """Stop running jobs where they are.

The processes of each job are stopped (SIGSTOP) and keep their slot and memory. Only `fetchwork continue`
lets them go on. The time is not charged, and counts neither for allowed_execute_duration nor for chain_s.

\b
Example:
  fetchwork suspend 42.0
  fetchwork suspend -constraint 'RemoteHost == "slot1@ep17"'""",
)


continue_ = command(
    "condor_continue",
    """Let suspended jobs go on.

\b
Example:
  fetchwork continue 42.0
  fetchwork continue alice""",
)


@click.command("edit", cls=options.FaceCommand)
@options.words_argument("JOB|OWNER ATTR VALUE|ATTR=VALUE...")
@options.constraint_note
@options.json_option
@options.performing
@click.pass_context
def edit(context: click.Context, session: AnySession, words: tuple[str, ...], as_json: bool) -> None:
    """Change attributes of jobs in the queue.

    VALUE is a ClassAd expression; strings need their double quotes. Attributes that matching uses may change
    too; the job keeps its position in the queue. Takes the options of condor_qedit.

    \b
    Example:
      fetchwork edit 42.0 RequestMemory 4096
      fetchwork edit 42.0 JobPrio=7
      fetchwork edit alice JobPrio 10 JobDescription '"second try"' -constraint 'JobStatus == 5'
    """
    from fetchwork.cli import face
    from fetchwork.condor import qedit

    run = face.made("condor_qedit", words, session)
    asked = face.told(run, lambda: qedit.parse(run))
    run.silent = as_json
    changed = qedit.edit(run, asked)
    if as_json:
        output.print_json({"changed": changed})
    context.exit(int(not changed))
