-- The story of test_clients.py with vim.lsp.rpc. Run with the path of a socket: nvim -l story.lua PATH
local path = arg[1]
local seen, client = {}, nil

local function dial()
  local mine = {}
  table.insert(seen, mine)
  client = vim.lsp.rpc.connect(path)({
    notification = function(method, params)
      params.type = method
      table.insert(mine, params)
    end,
    server_request = function() end,
    on_exit = function() end,
    on_error = function(code, err) error(vim.inspect({ code, err })) end,
  })
end

local function await(what, condition)
  assert(vim.wait(15000, condition, 2), "waited in vain for " .. what)
end

local function call(method, params)
  local answer
  client.request(method, params, function(err, result)
    assert(not err, vim.inspect(err))
    answer = result
  end)
  await(method, function() return answer ~= nil end)
  return answer
end

local function event(kind)
  local found
  await(kind, function()
    for _, each in ipairs(seen[#seen]) do
      if each.type == kind then found = each end
    end
    return found ~= nil
  end)
  return found
end

local hello = { protocol_version = 1, client = { name = "nvim", version = "1" }, capabilities = { panels = true } }
dial()
local server = call("initialize", hello)
call("ping", {}) -- goes as []
local session = call("session/new", {}).session
local id = session.session_id

local first = call("turn/start", { session_id = id, text = "hello" })
local answer = call("turn/wait", { session_id = id, turn_id = first.turn_id })

call("turn/start", { session_id = id, text = "/approve now" })
local panel = event("ext_panel_open")
call("panel/key", {
  session_id = id, extension = panel.extension, panel_id = panel.panel_id, key = "rune", text = "y",
})
local pressed = event("ext_notify")

local turn_id = call("turn/start", { session_id = id, text = "story" }).turn_id
-- Neovim never calls back for a request that was cancelled, but it does forget it.
local cancelled, called_back = false, false
local _, waiting = client.request("turn/wait", { session_id = id, turn_id = turn_id }, function()
  called_back = true
end, function() cancelled = true end)
client.notify("$/cancelRequest", { id = waiting })
await("the end of the request", function() return cancelled end)
assert(not called_back)

await("three deltas", function()
  local count = 0
  for _, each in ipairs(seen[1]) do
    if each.turn_id == turn_id and each.type == "text_delta" then count = count + 1 end
  end
  return count >= 3
end)
client.terminate()
local since = seen[1][#seen[1]].seq
local before = vim.list_slice(seen[1])

dial()
call("initialize", hello)
local attached = call("session/attach", { session_id = id, epoch = session.epoch, since = since })
event("done")
local messages = call("session/messages", { session_id = id }).messages
local told = messages[#messages].content
client.terminate()
io.stdout:write(vim.json.encode({
  server = server, session = session, answer = answer, pressed = pressed, cancelled = -32800, since = since,
  attached = attached, told = told, turn_id = turn_id, before = before, after = seen[2],
}) .. "\n")
