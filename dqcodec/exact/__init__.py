"""The integer twin of flows: the same model, exact on any machine. Knows no torch and no training."""
