"""Context mixing, alone and with a model; pixel mixing of drawn images; experts for deep samples."""
