"""The agent's answer to each request, and the code that only one request needs."""
