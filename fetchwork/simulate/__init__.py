"""Plays the startds and starters of many slots, for load tests and for breaking things on purpose.

The life of a slot here is the one that was observed on real HTCondor 23.9.6 and 25.14.1: which hook is called
when, with which ad, what happens to its output, and what happens in silence. A hook executable reads its
stdin; the simulation asks an agent's socket, by the same protocol. Jobs are virtual: they take as long as
their ad says, and use nothing.

It stands in for HTCondor where the queue is tested, never where something is claimed about HTCondor.
"""

from fetchwork.simulate.behaviour import BEHAVIOURS, Behaviour, Clock, Timing
from fetchwork.simulate.host import Host
from fetchwork.simulate.ledger import Execution, Ledger
from fetchwork.simulate.slotad import SlotSpec

__all__ = [
    "BEHAVIOURS",
    "Behaviour",
    "Clock",
    "Execution",
    "Host",
    "Ledger",
    "SlotSpec",
    "Timing",
]
