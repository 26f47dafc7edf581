"""What everything else stands on: errors, varints, compiled loops, threads."""
