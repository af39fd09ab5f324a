"""How the agent comes to where it runs."""
