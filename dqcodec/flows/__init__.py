"""The paper, in real numbers: dequantizers, densities, objectives; nats, torch. Knows nothing of bits and stacks."""
