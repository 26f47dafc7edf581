"""The .dqc format as bytes: files, archives, and the split of samples into layers. No image is coded here."""
