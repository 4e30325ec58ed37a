"""One typed function for each SQL function that fetchwork calls; no other code names one in a string.

A function here does no I/O. It returns a ``Call``, which a ``Database`` or an ``AsyncDatabase`` runs::

    from fetchwork.db.calls import hosts

    runs = await database.run(hosts.host_runs(host_id=7), timeout_s=5.0)
    print([run.run_id for run in runs])

``tests/sql/test_calls.py`` compares every call with the functions in the database.
"""
