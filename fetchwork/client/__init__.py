"""The thin client of an access point, with few imports: some commands run a thousand times a minute."""
