"""Fixtures of the honest projects."""

from judge_fixtures import human_path, play, slim_bin

__all__ = ["human_path", "play", "slim_bin"]
