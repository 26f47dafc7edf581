"""Coding bits: the stack (an ANS coder), codecs that push to it and pop from it, and bits-back.

This package uses no torch. It knows models only as codecs (`protocol.py`).
"""
