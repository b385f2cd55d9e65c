"""Task dialogues over many services: an orchestrator, the world it books in, and a player that kills its workers.

python -m examples.booking --dialogues FILE --workers 2 --kill
"""
