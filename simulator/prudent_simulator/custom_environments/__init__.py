"""Environments of your own: a YAML file says how rewards come about, and the simulator plays it."""
