"""Events of jobs, their stream, and entries of event logs."""
