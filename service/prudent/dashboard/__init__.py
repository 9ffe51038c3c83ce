"""The dashboard: pages rendered on the server from the tables, with charts; it writes what its try page is told to."""
