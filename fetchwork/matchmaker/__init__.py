"""Evaluates users' expressions in a disposable process.

Theory of operation
-------------------
Requirements, Rank, policy expressions and requests are programs that users wrote. Such a program can run for
ever, take all memory, or end the process that evaluates it. So no process that serves several users evaluates
them: the agent, and every other such process, asks a *worker*.

    agent --socket--> zygote --fork--> worker      ``client`` is the agent's side, ``zygote`` and ``worker``
      \\_________socket_________________/          are the processes

The worker evaluates item after item. Before each item it writes the item's number into memory that it shares
with the zygote (``mark``), and arms a timer of its CPU time, whose signal ends the process: the kernel can
stop HTCondor's evaluator, Python code can't. The worker's memory is limited, too. When the worker ends, the
zygote tells the agent the signal and the item, and forks a new worker, which takes a millisecond.

An item is blamed at once only for its CPU time. If a worker ends in another way (memory, a crash), the item
gets one more try alone; if the wall clock ends a worker, no item is blamed, for the host may be busy.

One submitter's ads must not delay another's. Each submitter has a budget: some seconds of CPU in a period,
and a slice of them in one request; items beyond that wait, and other submitters have their turn. After an
item had to be ended, nothing new of its submitter is tried for a while. Earlier verdicts cost nothing and
always count: ``fetchwork.matching.verdicts`` says how long they hold.

The worker has no rights: as root's child it becomes the account `nobody`, and it opens, forks and writes
nothing.
"""
