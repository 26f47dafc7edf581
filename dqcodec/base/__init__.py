"""Used by all other packages: errors, varints, compiled loops, threads, and the end of a process."""
