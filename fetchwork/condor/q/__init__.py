"""condor_q: its options, its jobs and its tables."""
