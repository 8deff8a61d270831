#!/usr/bin/env node
// Sends one prompt to a zotd that listens on a Unix socket, and prints the answer as it comes.
//   zotd rpc --listen unix:/tmp/zotd.sock &
//   node prompt.mjs /tmp/zotd.sock "fix the test"
// Exit code: 0 when the model answered, 1 when something went wrong; standard error says what.
// Nothing to install. With `vscode-jsonrpc`, createServerPipeTransport(path) does all of `call` and more.
import { connect } from "node:net";
import { createInterface } from "node:readline";

const [path, prompt] = process.argv.slice(2);
const socket = connect(path);
const waiting = new Map();
const stops = new Map();
let woken = () => {};
let last = 0;

function call(method, params) {
  const id = ++last;
  socket.write(JSON.stringify({ jsonrpc: "2.0", id, method, params }) + "\n");
  return new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
}

const events = {
  text_delta: ({ delta }) => process.stdout.write(delta),
  error: ({ message }) => console.error(message),
  done({ turn_id, stop }) {
    stops.set(turn_id, stop); // perhaps before anybody waits for it: it may come together with the answer
    woken();
  },
};

const lines = createInterface({ input: socket }).on("error", fail); // it passes on the socket's own
lines.on("line", (line) => {
  const { id, method, params, result, error } = JSON.parse(line);
  if (method) return events[method]?.(params);
  const { resolve, reject } = waiting.get(id);
  waiting.delete(id);
  return error ? reject(new Error(error.message)) : resolve(result);
});

function fail(error) {
  console.error(error.message);
  process.exit(1);
}

socket.on("error", fail);
socket.on("close", () => fail(new Error("the daemon went away")));
try {
  await call("initialize", { protocol_version: 1, client: { name: "prompt.mjs" } });
  const { session } = await call("session/new", { cwd: process.cwd() });
  const { turn_id } = await call("turn/start", { session_id: session.session_id, text: prompt });
  while (!stops.has(turn_id)) await new Promise((resolve) => (woken = resolve));
  process.stdout.write("\n");
  process.exitCode = stops.get(turn_id) === "end_turn" ? 0 : 1;
  socket.removeAllListeners("close").destroy();
} catch (error) {
  fail(error);
}
