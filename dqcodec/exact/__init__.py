"""What coding computes, in integers: the twins of `flows`, context mixing, JPEG. Exact on any machine.
They need numpy, not torch.

program.py           a model file -> a Program, of flow/ or autoregressive/
model_file.py        tensors and a description, in safetensors; identity.py: their id in files
networks.py          convolutions and linear layers whose sums are proven exact
mixture.py           mixtures of logistics as slots of symbols, for both kinds of programs
generating.py        images that a model makes from random bits
boxes.py             tiles and windows of layers
"""
