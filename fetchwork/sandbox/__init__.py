"""A job's sandbox: what goes into it and what comes out, by the rules of HTCondor's file transfer.

The rules are those of ``file_transfer.cpp``. PREPARE_JOB and JOB_EXIT apply them as the job's user; submit
and the delivery of outputs apply them too. Hooks import this room for a job with a sandbox, so it uses the
standard library alone, and imports late the modules that only some jobs need.
"""
