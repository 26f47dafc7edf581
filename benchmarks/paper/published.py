"""The values of the paper's tables: bits for the checkerboard, bits per dimension for images."""

# table 1: vi bits by density, then dequantizer
CHECKERBOARD_VI = {
    "diagonal": {"uniform": 2.51, "normal": 2.08, "flow": 2.01},
    "covariance": {"uniform": 1.91, "normal": 1.66, "flow": 1.08},
    "flow": {"uniform": 1.11, "normal": 1.02, "flow": 1.02},
}
# table 2: iw256 bits of a flow density by objective, then dequantizer
CHECKERBOARD_IW = {
    "vi": {"uniform": 1.05, "normal": 1.00, "flow": 1.00},
    "iw16": {"uniform": 1.00, "normal": 1.00, "flow": 1.00},
    "renyi2": {"uniform": 1.02, "normal": 1.00, "flow": 1.01},
}
# tables 4 and 5: data set -> row -> dequantizer -> (KL, vi, -log P)
IMAGES = {
    "mnist": {
        "covariance": {
            "uniform": (0.061, 0.533, 0.472),
            "gaussian": (0.046, 0.268, 0.242),
            "bipartite": (0.010, 0.196, 0.186),
            "ard": (0.007, 0.190, 0.183),
        },
        "flow": {
            "uniform": (0.014, 0.176, 0.162),
            "gaussian": (0.007, 0.156, 0.149),
            "bipartite": (0.005, 0.153, 0.148),
            "ard": (0.005, 0.152, 0.147),
        },
    },
    "cifar10": {
        "8bit": {
            "uniform": (0.03, 3.29, 3.26),
            "gaussian": (0.02, 3.21, 3.19),
            "bipartite": (0.02, 3.18, 3.16),
            "ard": (0.02, 3.16, 3.14),
        },
        "5bit": {
            "uniform": (0.04, 1.65, 1.61),
            "gaussian": (0.02, 1.50, 1.48),
            "bipartite": (0.01, 1.43, 1.42),
            "ard": (0.02, 1.41, 1.39),
        },
    },
}
# table 3: -log P with a flow density and uniform dequantizer, by data set and objective
OBJECTIVES = {
    "mnist": {"vi": 0.162, "iw4": 0.159, "renyi4": 0.160},
    "cifar10": {"vi": 1.61, "iw4": 1.61, "renyi4": 1.61},  # 5 bit
}
# table 6: 8-bit CIFAR-10 in the literature, as the paper gives it: method, source, (KL, vi, -log P); None: not reported
LITERATURE = (
    ("IAF-VAE", "Kingma et al. 2016", (0.04, 3.15, 3.11)),
    ("BIVA", "Maaløe et al. 2019", (0.04, 3.12, 3.08)),
    ("Glow", "Kingma and Dhariwal 2018", (None, 3.35, None)),
    ("FFJORD", "Grathwohl et al. 2019", (None, 3.40, None)),
    ("IDF", "Hoogeboom et al. 2019", (None, None, 3.32)),
    ("MintNet", "Song et al. 2019", (None, 3.32, None)),
    ("Residual Flow", "Chen et al. 2019", (None, 3.28, None)),
    ("Flow++", "Ho et al. 2019", (0.04, 3.12, 3.08)),
    ("ARD", "the paper", (0.03, 3.09, 3.06)),
)
