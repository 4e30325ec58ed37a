"""Why a job does not run, and what a slot may run."""
