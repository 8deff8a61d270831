-- Sends one prompt to a zotd that listens on a Unix socket, with Neovim's own RPC client, and prints the answer.
--   zotd rpc --listen unix:/tmp/zotd.sock &
--   nvim --clean --headless -l prompt.lua /tmp/zotd.sock "fix the test"
-- Exit code: 0 when the model answered, 1 when something went wrong; standard error says what.
local path, prompt = arg[1], arg[2]
local stops, closed = {}, false

local function fail(message)
  io.stderr:write(message .. "\n")
  os.exit(1)
end

-- That nobody listens is told in this way only.
vim.notify = fail

local events = {
  text_delta = function(event)
    io.stdout:write(event.delta)
    io.stdout:flush()
  end,
  error = function(event) io.stderr:write(event.message .. "\n") end,
  done = function(event) stops[event.turn_id] = event.stop end,
}

local client = vim.lsp.rpc.connect(path)({
  notification = function(method, params)
    if events[method] then events[method](params) end
  end,
  server_request = function() return nil, vim.lsp.rpc.rpc_response_error(-32601) end,
  on_exit = function() closed = true end,
  on_error = function(_, err) fail(vim.inspect(err)) end,
})

-- Waits without a limit: a model may take long. What arrives meanwhile is handled.
local function await(condition)
  while not condition() do
    if closed then fail("the daemon went away") end
    vim.wait(60000, function() return closed or condition() end, 5)
  end
end

local function call(method, params)
  local result
  client.request(method, params, function(err, answer)
    if err then fail(err.message) end
    result = answer
  end)
  await(function() return result ~= nil end)
  return result
end

call("initialize", { protocol_version = 1, client = { name = "prompt.lua" } })
local session = call("session/new", { cwd = vim.uv.cwd() }).session
local turn = call("turn/start", { session_id = session.session_id, text = prompt })
await(function() return stops[turn.turn_id] end)
io.stdout:write("\n")
io.stdout:flush()
os.exit(stops[turn.turn_id] == "end_turn" and 0 or 1)
