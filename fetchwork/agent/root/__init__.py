"""The part of the agent that keeps root, and what it is asked for."""
