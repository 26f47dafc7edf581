"""The context of a pixel, in integers: the order of coding, neighbours, least-squares predictions."""
