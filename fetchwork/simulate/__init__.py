"""Plays the startds and starters of many slots, for load tests and for breaking things on purpose.

Its slots behave as observed on HTCondor 23.9.6 and 25.14.1: the hooks that are called, their order and ads,
the effects of their output, and the failures without a message. A hook executable reads its
stdin; the simulation asks an agent's socket, by the same protocol. Jobs are virtual: they take as long as
their ad says, and use nothing.

It replaces HTCondor in tests of the queue, but proves nothing about HTCondor itself.
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
