"""The directory for PYTHONPATH: HTCondor's modules, whose schedd is the queue.

``htcondor2`` and ``htcondor`` in here are HTCondor's own bindings, of the Python that imports them, with
other classes in the place of those that speak to daemons. ``classad2`` and ``classad`` are HTCondor's,
untouched.
"""
