#!/usr/bin/env python3
"""Attaches this terminal to a session of your daemon: `./attach.py [SESSION_ID] [flags of zotd]`. Without
an id it is the newest open one of this folder with a model, or a new one. Each line is a prompt. Whether a
call may run is asked on all attached terminals: y, n, s for this session, a for always; one answer counts."""

import json
import os
import signal
import subprocess
import sys
import threading
from difflib import unified_diff
from pathlib import Path

ME = f"terminal {os.getpid()}"
ANSWERS = {"y": ("allow", "once"), "n": ("deny", "once"), "s": ("allow", "session"), "a": ("allow", "always")}
SHOWN = {"text_delta": "{delta}", "done": "\n", "error": "{message}\n", "tool_call": "\n[{name} {args}]\n"}
SHOWN |= {"approval_resolved": "[{decision} by {by}]\n", "ext_notify": "{message}\n"}


def show(text):  # without what could steer the terminal
    print("".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text), end="", flush=True)


def preview(call, kind, command="", path="", old_text="", new_text="", **_):
    if kind == "diff":
        rows = unified_diff(old_text.splitlines(True), new_text.splitlines(True), path, path)
        return "\n".join(row.removesuffix("\n") for row in rows)
    return f"$ {command}" if kind == "command" else f"{call['name']} {call['args']}"


def main(*flags):
    session_id, *flags = flags if flags and not flags[0].startswith("-") else ("", *flags)
    command, pipe = ["zotd", "rpc", "--connect", "auto", *flags], subprocess.PIPE
    zotd = subprocess.Popen(command, stdin=pipe, stdout=pipe, encoding="utf-8", errors="replace")
    questions = []  # requests that wait for an answer from here

    def send(**message):
        print(json.dumps({"jsonrpc": "2.0", **message}), file=zotd.stdin, flush=True)

    def follow(request_id=None):
        """Show what comes, until that request is answered; the result."""
        for message in map(json.loads, zotd.stdout):
            kind, event = message.get("method"), message.get("params", message.get("error"))
            if kind == "approval/request":
                questions.append(message["id"])
                show(f"\n{preview(event['tool_call'], **event['preview'])}\nMay it run? y, n, s or a: ")
            elif kind == "$/cancelRequest" and event["id"] in questions:
                questions.remove(event["id"])
            elif kind == "user_message" and event.get("origin") != ME:
                show(f"> {event['content'][0].get('text', '')}\n")
            elif kind == "tool_result" and event["details"].get("denied_by") == "rules":
                show(f"[not run: {event['content'][0]['text']}]\n")  # nobody was asked
            elif kind in SHOWN or "error" in message:
                show(SHOWN[kind or "error"].format(**event))
            if kind is None and message["id"] == request_id:
                return message["result"] if "result" in message else sys.exit(1)
        show("the daemon went away\n")
        os._exit(1)  # sys.exit would end this thread and leave the one that reads the terminal

    def call(method, **params):
        send(id=method, method=method, params=params)
        return follow(method)

    cwd = str(Path.cwd())
    call("initialize", protocol_version=1, client={"name": ME}, capabilities={"approvals": True})
    rows = [row for row in call("session/list", cwd=cwd)["sessions"] if row["open"] and row["model"]]
    session_id = session_id or (rows[0]["session_id"] if rows else "")
    if session_id and flags:
        print("flags count for a new session only: this one goes on as it is", file=sys.stderr)
    session_id = session_id or call("session/new", cwd=cwd)["session"]["session_id"]
    call("session/attach", session_id=session_id, since=0)
    show(f"attached to session {session_id}\n")
    threading.Thread(target=follow, daemon=True).start()
    for line in map(str.strip, sys.stdin):
        if questions and line in ANSWERS:
            send(id=questions.pop(0), result=dict(zip(("decision", "scope"), ANSWERS[line], strict=True)))
        elif questions:
            show("y, n, s or a: ")
        elif line:
            send(id="turn/start", method="turn/start", params={"session_id": session_id, "text": line})


signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C leaves, and the session goes on
main(*sys.argv[1:])
