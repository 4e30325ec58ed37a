"""Jobs' tokens for services, sealed on their way through the database: keys, contents, expiry, renewal."""
