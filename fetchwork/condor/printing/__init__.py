"""The forms of output that HTCondor's commands share: tables, print formats, whole ads."""
