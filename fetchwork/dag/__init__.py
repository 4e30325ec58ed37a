"""DAGs: support for HTCondor's own condor_dagman, which runs them over this queue."""
