"""The database: tables, engines and every SQL statement of the project. Knows bytes, not algorithms."""
