"""Edges: parse and print. They never decide."""
