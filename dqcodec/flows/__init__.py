"""The paper in real numbers: dequantizers, densities and objectives, in torch. Log-probabilities are in nats.

Equations have the numbers of the paper; docs/theory.md, section 10, has an index of it.

This package knows no coder: `dqcodec.export` turns its models into integer programs, which `dqcodec.exact` runs.

    model.py             P(x) from a density p(v) and a dequantizer q(u|x); objectives.py: bounds from their log weights
    bins.py              v from a symbol x and a place u in its bin
    dequantizers.py      q(u|x); features.py: what it sees of x
    densities.py         p(v): Gaussians, flows with affine couplings
    interlaced.py        p(v): flows with mixture couplings
    autoregressive_density.py     p(v), with its posterior as q(u|x); context.py: what it sees of earlier pixels
    transforms.py, couplings.py, autoregressive.py    bijections, with log-determinants
    networks.py, mixture.py, planes.py                their parts
"""
