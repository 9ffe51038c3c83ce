"""Who calls, and what they may do: API keys, and sessions of the dashboard."""
