"""The pure core: definitions, decisions, contracts, ports, stages, the in-process engine.

It imports no Celery and no driver, keeps no clock and writes no log; a process hands it all of these in an `Environment`.
"""
