"""Coding bits: the stack (an ANS coder) and the codecs on it. This package uses no torch.

Only `craystack.py` knows models: it makes a craystack codec of one.
"""
