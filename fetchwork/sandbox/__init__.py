"""A job's sandbox: what goes into it and what comes out, by the rules of HTCondor's file transfer.

The rules are those of ``file_transfer.cpp``; who applies them are PREPARE_JOB and JOB_EXIT, as the job's
user, and whoever stores inputs at submit or brings outputs back. Hooks import this room, where a job has a
sandbox, so it is made of the standard library alone, and imports late what only some jobs need.
"""
