"""Evaluates what people have submitted, in a process that can be thrown away.

Theory of operation
-------------------
Requirements, Rank, policy expressions and requests are programs that other people wrote. One of them can run
for ever, take all memory, or end the process that evaluates it. So nothing that serves everybody evaluates
them: the agent (and whoever else evaluates for others) asks a *worker*.

    agent --socket--> zygote --fork--> worker      ``client`` is the agent's side, ``zygote`` and ``worker``
      \\_________socket_________________/          are the processes

The worker evaluates item after item. Before each it writes down, in memory that it shares with the zygote,
which item that is (``mark``), and arms a timer of its CPU time whose signal ends the process: the kernel does
what no Python code could while HTCondor's evaluator runs. Its memory is limited, too. When it ends, the
zygote tells the agent by which signal and at which item, and forks another, which takes a millisecond.

What is blamed on an item is CPU time only. A worker that ends in another way (memory, a crash) gets one more
try with that item alone; one that ends because of the wall clock blames nobody, for the host may be busy.

One submitter's ads must not delay another's. Each submitter has an account: so many seconds of CPU in a
period, and a slice of them in one request; what goes beyond waits, and the others have their turn. Where an
item had to be ended, nothing new of its submitter is tried for a while. What was found out before costs
nothing and always counts: ``fetchwork.matching.verdicts`` says how long it holds.

The worker has no rights: as root's child it becomes nobody, and it opens, forks and writes nothing.
"""
