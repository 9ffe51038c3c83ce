"""The HTTP contract, against real servers on both databases."""
