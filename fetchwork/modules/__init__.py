"""The directory for PYTHONPATH: HTCondor's modules, whose schedd is the queue.

Its ``htcondor2`` and ``htcondor`` are HTCondor's own bindings, as the importing Python has them, with the
classes that speak to daemons replaced. ``classad2`` and ``classad`` are HTCondor's, unchanged.
"""
