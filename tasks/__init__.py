"""The Celery edge: one file a stage; messages in, core calls out. Importing the package imports nothing."""
