"""The floor of joining a daemon: `floor_client.py PATH` sends it a line of input, prints the answer."""

import json
import socket
import sys

with socket.socket(socket.AF_UNIX) as connected:
    connected.connect(sys.argv[1])
    connected.sendall(json.dumps(json.loads(sys.stdin.readline())).encode() + b"\n")
    answer = b""
    while not answer.endswith(b"\n"):
        answer += connected.recv(65536)
    sys.stdout.write(json.dumps(json.loads(answer)) + "\n")
    sys.stdout.flush()
