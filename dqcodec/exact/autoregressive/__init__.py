"""Autoregressive densities in integers.

program.py           AutoregressiveProgram: tiles <-> slots of symbols <-> stack
description.py       the metadata of its model file; changes.py: from one program to another
walk.py              front by front: code_front, then the layers learn
front.py             code_front: context -> network -> for each plane laws -> symbols -> gradients
  context_net.py       context -> sums of the heads, for all planes at once (linear.py: its layers; products.py: their products)
  heads.py             sums, and earlier planes of the pixel -> raw outputs of a plane, of which exact/mixture.py makes laws
  backward.py          gradients of -log P with respect to the network's weights
learning.py          Adam for layers of one shape; learning_net.py: for the layers of the network
"""
