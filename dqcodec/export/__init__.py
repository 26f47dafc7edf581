"""From a trained model in real numbers to its exact program."""
