"""What jobs show to services, sealed for the way through the database: keys, contents, expiry, renewal."""
