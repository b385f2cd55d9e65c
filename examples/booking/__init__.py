"""Task dialogues over many services: an orchestrator, the world it books in, and players that kill its workers.

turnchain demo                                                         one kill, on a stack of its own
python -m examples.booking --dialogues FILE --workers 2 --kill         a storm of them, with the SQL of each count
"""
