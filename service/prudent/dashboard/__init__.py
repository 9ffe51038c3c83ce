"""The dashboard: pages rendered on the server from the tables, with charts. Only the try page records anything."""
