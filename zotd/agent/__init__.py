"""The agent: a prompt becomes turns of model and tools. Knows no process, socket, file format or HTTP."""
