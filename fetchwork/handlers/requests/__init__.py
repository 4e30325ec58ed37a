"""What the agent answers to each request, and what only one request needs."""
