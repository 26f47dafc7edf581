"""The integer twins of flows: the same models, exact on any machine. They need numpy, not torch."""
