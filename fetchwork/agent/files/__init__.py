"""Files of jobs on their way between the database or a bucket and the host."""
