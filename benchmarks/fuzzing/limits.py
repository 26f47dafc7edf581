"""The limits of all inputs, and where the repository is."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAX_INPUT = 1 << 20  # bytes
MAX_PIXELS = 1 << 14
