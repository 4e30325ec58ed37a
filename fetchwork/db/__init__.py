"""fetchwork's access to PostgreSQL; the only room that imports psycopg."""
