// The story of test_clients.py with vscode-jsonrpc. Run with the path of a socket, or with a command to start.
import { spawn } from "node:child_process";
import * as rpc from "vscode-jsonrpc/node";

const seen = [];
let wake = () => {};
const command = process.argv.slice(2);

/** A connection, and what breaks it off without a word. */
function dial() {
  if (command.length === 1) {
    const [reader, writer] = rpc.createServerPipeTransport(command[0]);
    return [listen(reader, writer), (connection) => (connection.end(), connection.dispose())];
  }
  const child = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
  const gone = new Promise((resolve) => child.on("close", resolve));
  const reader = new rpc.StreamMessageReader(child.stdout);
  return [listen(reader, new rpc.StreamMessageWriter(child.stdin)), () => (child.stdin.end(), gone)];
}

function listen(reader, writer) {
  const connection = rpc.createMessageConnection(reader, writer);
  const mine = [];
  seen.push(mine);
  connection.onNotification((method, params) => {
    mine.push({ type: method, ...params });
    wake();
  });
  connection.listen();
  return connection;
}

/** The nth event of a type on the last connection, as soon as it is there. */
async function event(type, nth = 1) {
  for (;;) {
    const found = seen.at(-1).filter((each) => each.type === type)[nth - 1];
    if (found) return found;
    await new Promise((resolve) => (wake = resolve));
  }
}

const capabilities = { panels: true };
const hello = { protocol_version: 1, client: { name: "vscode", version: "1" }, capabilities };
let [connection, drop] = dial();
const server = await connection.sendRequest("initialize", hello);
const { session } = await connection.sendRequest("session/new", {});
const id = { session_id: session.session_id };

const first = await connection.sendRequest("turn/start", { ...id, text: "hello" });
const answer = await connection.sendRequest("turn/wait", { ...id, turn_id: first.turn_id });

await connection.sendRequest("turn/start", { ...id, text: "/approve now" });
const panel = await event("ext_panel_open");
const key = { extension: panel.extension, panel_id: panel.panel_id, key: "rune", text: "y" };
await connection.sendRequest("panel/key", { ...id, ...key });
const pressed = await event("ext_notify");

const { turn_id } = await connection.sendRequest("turn/start", { ...id, text: "story" });
const source = new rpc.CancellationTokenSource();
const waiting = connection.sendRequest("turn/wait", { ...id, turn_id }, source.token).catch((error) => error.code);
source.cancel();
const cancelled = await waiting;

const deltas = () => seen[0].filter((each) => each.turn_id === turn_id && each.type === "text_delta").length;
while (deltas() < 3) await new Promise((resolve) => (wake = resolve));
await drop(connection);
const since = seen[0].at(-1).seq;

[connection, drop] = dial();
await connection.sendRequest("initialize", hello);
const back = command.length === 1 ? { epoch: session.epoch, since } : {};
const method = command.length === 1 ? "session/attach" : "session/load";
const attached = await connection.sendRequest(method, { ...id, ...back });
if (command.length === 1) await event("done");
const { messages } = await connection.sendRequest("session/messages", id);
const told = messages.at(-1).content;
await drop(connection);
const facts = { server, session, answer, pressed, cancelled, since, attached, told, turn_id };
console.log(JSON.stringify({ ...facts, before: seen[0], after: seen[1] }));
process.exit(0);
