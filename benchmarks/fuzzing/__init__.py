"""What benchmarks/fuzz.py is made of: changes of bytes, targets and their seeds, the fuzzer, and its watchdog."""
