"""PostgreSQL as fetchwork uses it; the only room that imports psycopg."""
