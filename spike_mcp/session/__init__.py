"""The heart: one transaction at a time between the edges and the machine.

Read `transaction.py` first: lock, read, fold, settle, decide, intent, effect, outcome, reply.
"""
