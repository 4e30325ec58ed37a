"""DAGs: what HTCondor's own condor_dagman needs to run them over this queue."""
