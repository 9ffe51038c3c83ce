-- The load that wrk makes: wrk ... -s pairs.lua URL -- KIND PREFIX BODIES [IDS]
--
-- KIND is select, reward, pair (a select, then a reward of the decision that it was given) or batch (the same with
-- the batch endpoints). BODIES: a file with one body of a select a line, used in turn. IDS: a file with one decision
-- id a line, rewarded once each by kind reward; the run ends with them. Prints one line of JSON.

local threads = {}

function setup(thread)
  table.insert(threads, thread)
end

local function lines_of(path)
  local lines = {}
  for line in io.lines(path) do
    lines[#lines + 1] = line
  end
  return lines
end

local headers = { ["Content-Type"] = "application/json" }

local function reward_of(id)
  return '{"decision_id":"' .. id .. '","reward":0.5}'
end

function init(args)
  kind = args[1]
  local suffix = kind == "batch" and "/batch" or ""
  select_path, reward_path = args[2] .. "/select" .. suffix, args[2] .. "/reward" .. suffix
  selects = {}
  for index, body in ipairs(lines_of(args[3])) do
    selects[index] = wrk.format("POST", select_path, headers, body)
  end
  ids = args[4] and lines_of(args[4]) or {}
  waiting = {} -- bodies of rewards that are due
  turn, completed, failed = 0, 0, 0
end

function request()
  if kind == "reward" then
    turn = turn + 1
    if turn >= #ids then
      wrk.thread:stop()
    end
    return wrk.format("POST", reward_path, headers, reward_of(ids[math.min(turn, #ids)]))
  end
  if #waiting > 0 then
    return wrk.format("POST", reward_path, headers, table.remove(waiting))
  end
  turn = turn % #selects + 1
  return selects[turn]
end

-- The replies to rewards have "duplicate"; the no-op's have no decision_id.
local function is_select(body)
  return not body:find('"duplicate"', 1, true) and body:find('"decision_id"', 1, true)
end

function response(status, _, body)
  if status ~= 200 then
    failed = failed + 1
  elseif kind == "select" or kind == "reward" or not is_select(body) then
    completed = completed + 1
  elseif kind == "pair" then
    waiting[#waiting + 1] = reward_of(body:match('"decision_id":"([^"]+)"'))
  else
    local items = {}
    for id in body:gmatch('"decision_id":"([^"]+)"') do
      items[#items + 1] = reward_of(id)
    end
    waiting[#waiting + 1] = '{"items":[' .. table.concat(items, ",") .. "]}"
  end
end

function done(summary, latency)
  local total, refused = 0, 0
  for _, thread in ipairs(threads) do
    total = total + thread:get("completed")
    refused = refused + thread:get("failed")
  end
  local errors = summary.errors
  io.write(string.format(
    '{"completed":%d,"failed":%d,"broken":%d,"seconds":%.6f,"p50_ms":%.4f,"p99_ms":%.4f}\n',
    total, refused, errors.connect + errors.read + errors.write + errors.timeout, summary.duration / 1e6,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3
  ))
end
