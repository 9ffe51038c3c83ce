"""The HTTP contract: schemas, routes, and errors as problem+json. No business rules."""
