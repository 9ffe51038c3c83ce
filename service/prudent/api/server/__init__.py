"""The way of a request from the socket to its route: protocol, middleware, authentication, bodies."""
