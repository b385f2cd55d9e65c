"""Drivers behind the core's ports: memory and Postgres, and the one exam that both pass."""
