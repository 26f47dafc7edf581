"""Used by all other packages: errors, varints, fields of bytes, compiled loops,
instructions, threads, and the end of a process.
"""
