"""Codecs of zarr and numcodecs: chunks of arrays as .dqc files."""
