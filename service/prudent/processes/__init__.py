"""Several processes that speak HTTP, and one that has the ledger: `prudent serve --workers 2` and more."""
