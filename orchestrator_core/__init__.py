"""The pure core: definitions, decisions, contracts, ports, stages, the in-process engine.

It imports no Celery and no driver, keeps no clock and writes no log; a process hands it what it needs in an
`Environment`.
"""
