"""condor_status: its options, its slots and its tables."""
