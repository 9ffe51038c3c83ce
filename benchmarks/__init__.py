"""How fast the service is, measured against the least that the same web framework can do."""
