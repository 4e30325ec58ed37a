"""The agent's privileged part, which keeps root, and its client."""
