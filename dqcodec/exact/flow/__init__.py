"""Flows and their dequantizers, in integers.

program.py           FlowProgram: tiles <-> stack, by ans/bits_back.py: a dequantizer pops u, a density pushes v = x + u
description.py, loading.py    from a model file to both, checked
dequantizers.py      q(u|x): features.py of x -> steps.py from eps to y -> cells of u = sigmoid(y)
densities.py         p(v): levels of transforms.py (couplings, 1x1 convolutions), a logistic base
interlaced.py        p(v): levels of mixture_coupling.py, which need no latents
networks.py          the networks of all of them; their convolutions are in exact/networks.py
tables.py            laws as tables of frequencies, for noise, base and tails
"""
