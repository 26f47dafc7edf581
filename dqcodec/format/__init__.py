"""The .dqc format: containers and archives as bytes, and what an image is split into."""
