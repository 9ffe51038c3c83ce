"""Reports about campaigns, read from the tables without a lock; the ledger is asked only what the model has learned."""
