"""Complete programs on Turnchain."""
