"""Programs that run INSIDE the sandbox, under the measured project's own Python or node.

They import nothing of this package and are read as files, never imported by it. Written for
Python 3.7 and newer, whatever the server itself runs on.
"""
