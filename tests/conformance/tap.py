"""A server with a tap on its line: `tap.py LOG COMMAND...` keeps what was really said.

What a fuzzer reports is not always what it sent. Each line of LOG is `> ` or `< ` and a message.
"""

import subprocess
import sys
import threading


def main(log: str, command: list[str]) -> int:
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    lock = threading.Lock()
    with open(log, "ab") as kept:

        def copy(source, target, mark):
            for line in iter(source.readline, b""):
                with lock:
                    kept.write(mark + line.rstrip(b"\n") + b"\n")
                    kept.flush()
                target.write(line)
                target.flush()

        back = threading.Thread(target=copy, args=(server.stdout, sys.stdout.buffer, b"< "))
        back.start()
        copy(sys.stdin.buffer, server.stdin, b"> ")
        server.stdin.close()
        back.join()
    return server.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
