"""What is known of a pixel before it is coded, in integers: the order of coding, neighbours, least-squares predictions."""
