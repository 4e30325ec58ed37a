"""Lines of starter logs, as HTCondor wrote them."""

from fetchwork.handlers.host.starterlog import Fault

# as 23.9.6 writes it
WRITTEN = """021 (001.000.000) 2026-11-22 04:00:00 Error from starter on <127.0.0.1:1?sock=slot1_1_2_3>:
\tFailed to execute '/no/such': (errno=2: 'No such file or directory')
...
"""
NO_PROGRAM = Fault("Failed to execute '/no/such': (errno=2: 'No such file or directory')", 6, 2)
USAGE = """\
\t\tUsr 0 00:00:00, Sys 0 00:00:00  -  Run Remote Usage
\t\tUsr 1 02:03:04, Sys 0 00:00:05  -  Run Local Usage
"""
REST = """\
\t0  -  Run Bytes Sent By Job
...
"""
BEGUN = """\
001 (007.003.000) 2026-11-22 13:56:30 Job executing on host: <127.0.0.1:25424?addrs=127.0.0.1-25424&sock=s_4>
...
"""
#: as HTCondor 23.9.6 and 25.14.1 write them
EXITED = (
    "005 (007.003.000) 2026-11-22 13:56:30 Job terminated.\n"
    "\t(1) Normal termination (return value 3)\n" + USAGE + REST
)
KILLED = (
    "005 (007.003.000) 2026-11-22 13:56:30 Job terminated.\n"
    "\t(0) Abnormal termination (signal 11)\n\t(0) No core file\n" + USAGE + REST
)
EVICTED = (
    "004 (007.003.000) 2026-11-22 13:56:34 Job was evicted.\n\t(0) CPU times\n"
    "\t\tUsr 0 00:00:00, Sys 0 00:00:00  -  Run Remote Usage\n" + REST
)
