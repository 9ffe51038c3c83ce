"""The paper's whole grid through the service, and the report on it."""
