"""What everything else stands on: errors, varints, compiled loops, threads, the end of a process."""
