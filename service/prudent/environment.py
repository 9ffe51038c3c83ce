"""Names of environment variables. The settings themselves are in settings.py, which takes longer to import."""

PREFIX = "PRUDENT_"
"""Of every setting's variable."""
API_KEY_VARIABLE = PREFIX + "API_KEY"
"""Not a setting of the service: the key that its command line sends to a server."""
ENVIRONMENT_FILE_VARIABLE = PREFIX + "ENV_FILE"
"""Not a setting of the service: the file that its command line reads variables from, `.env` if it is not set."""
API_KEY_FILE_VARIABLE = API_KEY_VARIABLE + "_FILE"
"""Not a setting of the service: the file that holds the key, where the key itself is not given."""
LEDGER_SOCKET_VARIABLE = PREFIX + "LEDGER_SOCKET"
"""Not a setting: where the processes of one `prudent serve` find the one that has the ledger."""
NOT_SETTINGS = frozenset({API_KEY_VARIABLE, API_KEY_FILE_VARIABLE, ENVIRONMENT_FILE_VARIABLE, LEDGER_SOCKET_VARIABLE})
