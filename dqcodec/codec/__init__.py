"""Images <-> .dqc bytes: the choice of methods, coding, reports, and the library."""
