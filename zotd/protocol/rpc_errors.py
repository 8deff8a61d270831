"""Owns the errors of JSON-RPC: their codes, their stable words (`data.kind`), and who answers with which."""

from __future__ import annotations

from typing import NamedTuple


class ErrorKind(NamedTuple):
    """code: the JSON-RPC error code. meaning: when it comes and what to do, for a client's author."""

    code: int
    meaning: str


REFUSED = -32000
"""The method exists and was understood, and could not be done."""

ERROR_KINDS: dict[str, ErrorKind] = {
    "parse": ErrorKind(-32700, "what came is no JSON; the next frame is read as usual"),
    "invalid_request": ErrorKind(-32600, "it is JSON and no request"),
    "method_not_found": ErrorKind(-32601, "there is no such method; `initialize` lists those there are"),
    "invalid_params": ErrorKind(
        -32602, "the message names the JSON path of the member that is wrong, and so does `path`"
    ),
    "unsupported": ErrorKind(-32602, "the member belongs to a later version and would be without effect"),
    "internal": ErrorKind(-32603, "a fault of the daemon; the message never holds an exception's text"),
    "not_initialized": ErrorKind(-32002, "`initialize` must succeed first"),
    "overloaded": ErrorKind(-32001, "too many requests in flight; try again after `retry_after_ms`"),
    "cancelled": ErrorKind(-32800, "the client cancelled the request"),
    "auth": ErrorKind(REFUSED, "`token` is missing or wrong; the connection closes"),
    "protocol_version": ErrorKind(-32602, "the two sides share no version; update the older one"),
    "provider_auth": ErrorKind(REFUSED, "the provider has no credentials; the message says how to give them"),
    "configuration": ErrorKind(REFUSED, "what a run of the command line asks for cannot be had"),
    "session_not_found": ErrorKind(REFUSED, "no session of that id is open, or none is saved"),
    "turn_not_found": ErrorKind(
        REFUSED, "no turn of that id is among the last 1,000 since the session was opened"
    ),
    "busy": ErrorKind(
        REFUSED, "a turn is running, or as many prompts wait as may: wait for a `done`, or abort"
    ),
    "command_not_found": ErrorKind(REFUSED, "no command of that name is registered; see `command/list`"),
    "extension_not_found": ErrorKind(REFUSED, "no extension of that name was found; see `extension/list`"),
    "extension_gone": ErrorKind(REFUSED, "the extension has ended, or does not read what is sent to it"),
    "session_locked": ErrorKind(REFUSED, "another process has the session open; the message names it"),
    "message_not_found": ErrorKind(REFUSED, "the conversation has no message of that id"),
    "bad_session_file": ErrorKind(REFUSED, "the file cannot be read as a session; the message says where"),
    "storage": ErrorKind(REFUSED, "a file cannot be written; the message says which and why"),
    "changed_since": ErrorKind(
        REFUSED, "files were changed after the turn; the message names them, and so does the array `paths`"
    ),
    "not_kept": ErrorKind(REFUSED, "what the turn's files held before is not kept any more"),
    "draining": ErrorKind(
        REFUSED, "the daemon was asked to end, or its installation changed: connect again, to the next one"
    ),
    "panel_not_found": ErrorKind(REFUSED, "that panel is not open, or no longer: nothing needs to be done"),
}
"""Every kind with its code."""

OF_EVERY_METHOD = (
    "parse",
    "invalid_request",
    "method_not_found",
    "invalid_params",
    "internal",
    "not_initialized",
    "overloaded",
    "cancelled",
)
"""Kinds that any request may be answered with."""

METHOD_ERRORS: dict[str, tuple[str, ...]] = {
    "initialize": ("auth", "protocol_version"),
    "ping": (),
    "rpc.discover": (),
    "$/cancelRequest": (),
    "$/cancel_request": (),
    "shutdown": (),
    "exit": (),
    "session/new": (
        "draining",
        "unsupported",
        "configuration",
        "provider_auth",
        "session_not_found",
        "session_locked",
        "bad_session_file",
    ),
    "session/load": ("session_not_found", "session_locked", "bad_session_file", "draining"),
    "session/attach": ("session_not_found", "session_locked", "bad_session_file", "draining"),
    "session/detach": ("session_not_found",),
    "session/close": ("session_not_found",),
    "session/delete": ("session_not_found", "session_locked", "storage"),
    "session/rename": ("session_not_found", "session_locked", "storage"),
    "session/list": (),
    "session/fork": ("session_not_found", "message_not_found", "bad_session_file", "draining", "storage"),
    "session/export": ("session_not_found", "bad_session_file", "storage"),
    "session/import": ("bad_session_file", "draining", "storage"),
    "session/compact": ("session_not_found", "busy", "draining", "provider_auth"),
    "session/set": ("session_not_found", "provider_auth", "unsupported", "storage"),
    "session/state": ("session_not_found",),
    "session/messages": ("session_not_found",),
    "turn/start": ("session_not_found", "busy", "draining", "provider_auth", "unsupported"),
    "turn/wait": ("session_not_found", "turn_not_found"),
    "turn/abort": ("session_not_found",),
    "turn/queue": ("session_not_found",),
    "turn/unqueue": ("session_not_found", "turn_not_found"),
    "turn/revert": ("session_not_found", "turn_not_found", "changed_since", "not_kept", "busy", "storage"),
    "session/clear": ("session_not_found", "busy", "storage"),
    "notes/clear": ("session_not_found",),
    "tool/list": ("session_not_found",),
    "command/list": ("session_not_found",),
    "command/run": ("session_not_found", "command_not_found", "draining"),
    "extension/list": ("session_not_found",),
    "extension/reload": ("session_not_found",),
    "extension/log": ("session_not_found", "extension_not_found"),
    "panel/key": ("session_not_found", "panel_not_found", "extension_gone"),
    "panel/resize": ("session_not_found", "panel_not_found", "extension_gone"),
    "panel/close": ("session_not_found", "panel_not_found"),
    "workspace/trust": ("storage",),
    "model/list": ("session_not_found",),
    "provider/list": ("session_not_found",),
    "daemon/status": (),
    "daemon/stop": (),
    "skill/list": ("session_not_found",),
    "theme/list": ("session_not_found",),
}
"""Kinds of a method besides those of every method."""
