"""The paper in real numbers: dequantizers, densities and objectives, in torch. Probabilities are in nats.

This package knows no coder: `dqcodec.export` turns its models into integer programs, which `dqcodec.exact` runs.
"""
