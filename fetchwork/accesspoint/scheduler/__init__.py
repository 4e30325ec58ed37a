"""The jobs of the scheduler universe, which an access point runs itself."""
