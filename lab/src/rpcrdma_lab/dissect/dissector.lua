-- RPC-over-RDMA version 2 over iWARP, for Wireshark and tshark: @DOCUMENT@.
-- Made by `rpcrdma decode --lua`; make it anew instead of editing it.
--
-- Wireshark's own dissectors take MPA, DDP and RDMAP apart, and offer the payload of each message to heuristic
-- dissectors, of which this is one. It gives RPC messages on to Wireshark's RPC dissector.

local protocol = Proto("rpcrdma2", "RPC-over-RDMA version 2 (@DOCUMENT@)")

@TABLES@

local OPCODE = Field.new("iwarp_rdma.opcode")
local RPC_MESSAGE_TYPE = 4 -- offset in an RPC message
local JOINED_MAX = @JOINED_MAX@

local fields = {}
for name, made in pairs(FIELDS) do
    fields[#fields + 1] = made
end
local payload_field = ProtoField.bytes("rpcrdma2.payload", "Payload")
local pieces_field = ProtoField.uint32("rpcrdma2.pieces", "Messages that were joined")
local moved_field = ProtoField.uint32("rpcrdma2.moved_length", "Octets moved by RDMA, which are not in this capture's Sends")
local joined_field = ProtoField.uint32("rpcrdma2.joined_length", "Octets of the joined message")
fields[#fields + 1] = payload_field
fields[#fields + 1] = pieces_field
fields[#fields + 1] = joined_field
fields[#fields + 1] = moved_field
protocol.fields = fields

local malformed = ProtoExpert.new("rpcrdma2.malformed", "Malformed header", expert.group.MALFORMED,
    expert.severity.ERROR)
local rule_broken = ProtoExpert.new("rpcrdma2.rule", "Rule broken", expert.group.PROTOCOL, expert.severity.WARN)
protocol.experts = { malformed, rule_broken }

-- A walk of one header: `at` is the next octet, `found` has the last value of each member by name. `read` are the segments
-- of Read chunks, `written` the octets of Write chunks, `positions` those of each list, `handles` those of all segments.
local Walk = {}
Walk.__index = Walk

local function new_walk(tvb)
    local walk = { tvb = tvb, at = 0, found = {}, items = {}, count = {}, properties = {}, failed = false }
    walk.read, walk.written, walk.positions, walk.handles = {}, 0, {}, {}
    return setmetatable(walk, Walk)
end

function Walk:fail(tree, reason)
    tree:add_proto_expert_info(malformed, reason)
    self.failed = true
end

function Walk:left()
    return self.tvb:len() - self.at
end

function Walk:has(tree, octets, name)
    if self:left() >= octets then return true end
    self:fail(tree, string.format("%s: %d octets needed, %d left", name, octets, self:left()))
    return false
end

function Walk:word(tree, name)
    if not self:has(tree, 4, name) then return nil end
    local value = self.tvb(self.at, 4):uint()
    self.at = self.at + 4
    return value
end

function Walk:number(tree, member, size)
    if not self:has(tree, size, member.name) then return nil end
    local range = self.tvb(self.at, size)
    self.at = self.at + size
    local item = tree:add(FIELDS[member.name], range)
    if size == 8 then return nil, item end
    local value = range:uint()
    self.found[member.name] = value
    self.items[member.name] = item
    for _, part in ipairs(PARTS[member.format] or {}) do item:add(FIELDS[part], range) end
    if member.name == "rdma_handle" then
        self.handles[value] = true
    elseif member.name == "rdma_position" then
        local list = self.positions[self.chunk] or {}
        table.insert(list, value)
        self.positions[self.chunk] = list
    elseif member.name == "rdma_length" and self.chunk == "rdma_reads" then
        table.insert(self.read, { position = self.found.rdma_position, length = value })
    elseif member.name == "rdma_length" and self.chunk == "rdma_writes" then
        self.written = self.written + value
    end
    if POSITIONS[member.name] and value % 4 ~= 0 then
        self:fail(item, "a Position is a multiple of 4")
        self.failed = false
    end
    return value, item
end

function Walk:opaque(tree, member)
    local start = self.at
    local length = self:word(tree, member.name)
    if not length then return end
    local padded = length + (4 - length % 4) % 4
    if not self:has(tree, padded, member.name) then return end
    self.at = self.at + padded
    local item = tree:add(FIELDS[member.name], length > 0 and self.tvb(start + 4, length) or self.tvb(start, 4))
    self.data = { start = start + 4, length = length, item = item }
end

function Walk:present(tree, name)
    local word = self:word(tree, name)
    if word and word > 1 then
        self:fail(tree, string.format("%s: %d where 0 (nothing follows) or 1 is needed", name, word))
        return nil
    end
    return word
end

function Walk:numbers(tree, member)
    local count = self:word(tree, member.name)
    if count * 4 > self:left() then
        self:fail(tree, string.format("%s: %d elements do not fit into %d octets", member.name, count, self:left()))
        return 0
    end
    for _ = 1, count do self:number(tree, member, 4) end
    return count
end

function Walk:finish(group, name, start, count)
    group:set_len(self.at - start)
    if count then group:set_text(string.format("%s: %d", name, count)) end
end

function Walk:member(tree, member)
    local kind = member.kind
    local start = self.at
    if kind == "u32" then
        return self:number(tree, member, 4)
    elseif kind == "u64" then
        return self:number(tree, member, 8)
    elseif kind == "opaque" then
        self:opaque(tree, member)
        return
    end
    if self:left() < 4 then
        self:has(tree, 4, member.name)
        return
    end
    local group = tree:add(self.tvb(start, 4), member.name)
    local count
    local around = self.chunk
    if member.name == "rdma_reads" or member.name == "rdma_writes" then
        self.chunk = member.name
    end
    if kind == "struct" then
        self:members(group, member.of)
    elseif kind == "optional" then
        count = self:present(group, member.name)
        if count == 1 then self:members(group, member.of) end
    elseif kind == "list" then
        count = 0
        while not self.failed and self:present(group, member.name) == 1 do
            count = count + 1
            self:members(group, member.of)
        end
    elseif kind == "array" then
        count = self:word(group, member.name)
        if count and count * 4 > self:left() then
            self:fail(group, string.format("%s: %d elements do not fit into %d octets", member.name, count, self:left()))
        end
        for _ = 1, count or 0 do
            if self.failed then break end
            self:members(group, member.of)
        end
    elseif kind == "numbers" then
        count = self:numbers(group, member)
    end
    self.chunk = around
    self.count[member.name] = (self.count[member.name] or 0) + (count or 0)
    self:finish(group, member.name, start, count)
end

function Walk:members(tree, name)
    local union = UNIONS[name]
    if union then
        local value = self:number(tree, union.discriminant, 4)
        if not value then return end
        local arm = union.arms[value]
        if arm == nil then arm = union.default end
        if arm == nil then
            self:fail(tree, string.format("%s: %d is no value that it can have", union.discriminant.name, value))
        elseif arm then
            self:member(tree, arm)
        end
        return
    end
    for _, member in ipairs(STRUCTS[name]) do
        if self.failed then return end
        self:member(tree, member)
        if member.kind == "opaque" and name == "property" then self:property(tree) end
    end
end

-- The value of the property that was read last: as much of its octets as its type takes.
function Walk:property(tree)
    local which, data = self.found.rdma_which, self.data
    if self.failed or not data then return end
    if self.properties[which] then
        self:fail(tree, "this property is there twice")
        self.failed = false
    end
    self.properties[which] = true
    local arm = UNIONS.property_value.arms[which]
    if data.length == 0 or not arm then return end
    new_walk(self.tvb(data.start, data.length):tvb()):member(data.item, arm)
end

-- Messages that go on in others, by their sender and XID; joined payloads by frame and place in it.
local unfinished = {}
local joined = {}

function protocol.init()
    unfinished = {}
    joined = {}
end

local function conversation_key(pinfo, xid)
    return string.format("%s/%d>%s/%d#%u", tostring(pinfo.src), pinfo.src_port, tostring(pinfo.dst), pinfo.dst_port, xid)
end

local function join(pinfo, tvb, walk, more)
    local place = string.format("%d/%u/%d", pinfo.number, walk.found.rdma_xid, tvb:offset())
    if pinfo.visited then return joined[place] end
    local key = conversation_key(pinfo, walk.found.rdma_xid)
    local before = unfinished[key]
    if not before and not more then return nil end
    local part = walk:left() > 0 and tvb(walk.at):bytes() or ByteArray.new()
    local now = before or { octets = ByteArray.new(), pieces = 0 }
    if now.octets:len() + part:len() <= JOINED_MAX then now.octets:append(part) end
    now.pieces = now.pieces + 1
    unfinished[key] = more and now or nil
    -- Each message has its length, and the last one the octets of all.
    joined[place] = { length = now.octets:len(), pieces = now.pieces, octets = not more and now.octets }
    return joined[place]
end

-- What stands for an item that was moved by RDMA: it says so, in octets that are shown as text, and is padded.
local MOVED = "moved by RDMA. "

local function moved_item(length)
    length = math.min(length, JOINED_MAX)
    local text = string.rep(MOVED, math.ceil(length / #MOVED)):sub(1, length)
    return ByteArray.new(text .. string.rep("\0", (4 - length % 4) % 4), true)
end

-- The RPC message with words in place of what was moved by RDMA: arguments stand at their Positions, and results are taken
-- to be at the end, where those that may be moved stand in NFS.
local function unreduced(tvb, walk, tree)
    local octets = tvb:bytes()
    local moved = 0
    if octets:len() < 8 then return tvb end
    if tvb(RPC_MESSAGE_TYPE, 4):uint() == 1 then
        moved = walk.written
        if moved > 0 then octets:append(moved_item(moved)) end
    else
        local at = {}
        for _, segment in ipairs(walk.read) do at[segment.position] = (at[segment.position] or 0) + segment.length end
        local positions = {}
        for position in pairs(at) do table.insert(positions, position) end
        table.sort(positions)
        for _, position in ipairs(positions) do
            if position == 0 or position > octets:len() then break end
            local length = at[position]
            local rest = octets:len() - position
            local whole = octets:subset(0, position)
            whole:append(moved_item(length))
            if rest > 0 then whole:append(octets:subset(position, rest)) end
            octets, moved = whole, moved + length
        end
    end
    if moved == 0 then return tvb end
    tree:add(moved_field, moved):set_generated()
    return octets:tvb("RPC message without what RDMA moved")
end

local function give_to_rpc(tvb, pinfo, tree, root)
    local rpc = Dissector.get("rpc")
    -- It stops at the end of a message that is cut off.
    local whole, done = pcall(function() return rpc:call(tvb, pinfo, root) end)
    if not whole then
        tree:add_proto_expert_info(malformed, "the RPC message is malformed")
    elseif done == 0 then
        Dissector.get("data"):call(tvb, pinfo, root)
    end
end

-- Marks the rules that a message breaks; `rpc` has direction and XID of the RPC message that begins in it, if one does.
local function check(walk, tree, kind, more, payload_octets, rpc)
    local found, count = walk.found, walk.count
    local flags = found.rdma_flags or 0
    local chunks = 0
    for _, name in ipairs(CHUNKS) do chunks = chunks + (count[name] or 0) end
    local reads = walk.positions.rdma_reads or {}
    local facts = {
        ["payload"] = payload_octets > 0,
        ["call"] = rpc ~= nil and rpc.direction == 0,
        ["reply"] = rpc ~= nil and rpc.direction == 1,
        ["other XID"] = rpc ~= nil and rpc.xid ~= found.rdma_xid,
        ["chunks"] = chunks > 0,
        ["reads"] = #reads > 0,
        ["Reply chunk"] = (count.rdma_reply or 0) + (count.rdma_provisional_reply or 0) > 0,
        ["foreign handle"] = (found.rdma_inv_handle or 0) ~= 0 and not walk.handles[found.rdma_inv_handle],
        ["reserved"] = flags >= 4,
        ["more"] = more,
        -- A refusal of the version has no flags.
        ["response"] = found.rdma_flags == nil or flags % 2 == 1,
        ["XID"] = found.rdma_xid ~= 0,
    }
    for _, position in ipairs(reads) do
        if position == 0 then facts["zero"] = true end
    end
    for _, rule in ipairs(RULES) do
        local is_broken = rule.kinds == nil or rule.kinds[kind] == true
        for name, wanted in pairs(rule.facts) do
            if (facts[name] or false) ~= wanted then is_broken = false end
        end
        if is_broken then
            local reason = rule.reason:gsub("{kind}", kind)
            if rpc then reason = reason:gsub("{rpc_xid}", string.format("0x%08x", rpc.xid)) end
            local item = walk.items[rule.member] or tree
            item:add_proto_expert_info(rule_broken, reason)
        end
    end
end

local function describe(pinfo, walk, kind, more)
    local said = string.format("%s XID 0x%08x", kind, walk.found.rdma_xid)
    if more then said = said .. " [continued]" end
    pinfo.cols.protocol:set("RPCoRDMA2")
    pinfo.cols.info:set(said)
end

-- XID and direction of the RPC message that begins there; nil if there are not enough octets for them.
local function rpc_start(tvb, at, octets)
    if octets < 8 then return nil end
    return { xid = tvb(at, 4):uint(), direction = tvb(at + RPC_MESSAGE_TYPE, 4):uint() }
end

-- Whether the payload is one part of several of the round-trip extension, which are not joined here.
local function is_part(walk, kind)
    return kind == "ROPT_XMTCONT" or (walk.found.optxrq_count or walk.found.optxrs_count or 1) > 1
end

local function dissect_payload(walk, tvb, pinfo, tree, root, kind, more)
    if is_part(walk, kind) then
        check(walk, tree, kind, more, walk:left(), nil)
        if walk:left() > 0 then tree:add(payload_field, tvb(walk.at)) end
        return
    end
    local whole = join(pinfo, tvb, walk, more)
    local rpc = (not whole or whole.pieces == 1) and rpc_start(tvb, walk.at, walk:left()) or nil
    check(walk, tree, kind, more, walk:left(), rpc)
    if walk:left() > 0 then tree:add(payload_field, tvb(walk.at)) end
    if whole then
        tree:add(pieces_field, whole.pieces):set_generated()
        tree:add(joined_field, whole.length):set_generated()
        if whole.octets and whole.length > 0 then
            give_to_rpc(unreduced(whole.octets:tvb("RPC message"), walk, tree), pinfo, tree, root)
        end
    elseif walk:left() > 0 then
        local payload = tvb(walk.at):tvb()
        give_to_rpc(unreduced(payload, walk, tree), pinfo, tree, root)
    end
end

-- A refusal of the version has the same 28 octets in all versions, without flags (RFC 8166 section 7). In version 2 the
-- same octets could be another error, but not one with a range of versions in it.
local function refuses_version(tvb)
    if tvb:len() ~= 28 or tvb(12, 4):uint() ~= 4 or tvb(16, 4):uint() ~= 1 then return false end
    local low, high = tvb(20, 4):uint(), tvb(24, 4):uint()
    return (low == 1 or low == 2) and low <= high
end

function protocol.dissector(tvb, pinfo, root)
    local tree = root:add(protocol, tvb())
    local walk = new_walk(tvb)
    local without_flags = refuses_version(tvb)
    for _, member in ipairs(STRUCTS.prefix) do
        if not (without_flags and member.name == "rdma_flags") then walk:member(tree, member) end
        if walk.failed then return tvb:len() end
    end
    local code = walk.found.rdma_htype
    local kind = TYPES[code]
    if not kind then
        walk.items.rdma_htype:add_proto_expert_info(malformed, string.format("%d is no type of header", code))
        describe(pinfo, walk, "header type " .. code, false)
        return tvb:len()
    end
    local more = math.floor((walk.found.rdma_flags or 0) / 2) % 2 == 1
    describe(pinfo, walk, kind, more)
    local body = kind:lower()
    if kind == "RDMA2_CONNPROP" and more then
        -- A part of a property set, cut anywhere.
        if walk:left() > 0 then tree:add(payload_field, tvb(walk.at)) end
        join(pinfo, tvb, walk, true)
        tree:set_text(tree.text .. ", " .. kind)
        return tvb:len()
    end
    local set = kind == "RDMA2_CONNPROP" and join(pinfo, tvb, walk, false)
    if set then
        walk.tvb, walk.at = set.octets:tvb("Transport properties"), 0
        tree:add(pieces_field, set.pieces):set_generated()
    end
    if STRUCTS[body] or UNIONS[body] then walk:members(tree, body) end
    if walk.found.rdma_err then
        if not ERRORS[walk.found.rdma_err] then
            walk.items.rdma_err:add_proto_expert_info(malformed, "this version has no such code")
        end
        pinfo.cols.info:append(" " .. (ERRORS[walk.found.rdma_err] or "unknown error"))
    end
    if not walk.failed then
        if WITH_PAYLOAD[kind] then
            tree:set_len(walk.at)
            dissect_payload(walk, tvb, pinfo, tree, root, kind, more)
        elseif walk:left() > 0 then
            walk:fail(tree, string.format("%d more octets follow", walk:left()))
        else
            check(walk, tree, kind, more, 0, nil)
        end
    end
    return tvb:len()
end

local function is_send()
    local opcodes = { OPCODE() }
    local last = opcodes[#opcodes]
    return last ~= nil and last.value >= 3 and last.value <= 6
end

protocol:register_heuristic("iwarp_ddp_rdmap", function(tvb, pinfo, root)
    if tvb:len() < 16 or tvb(4, 4):uint() ~= 2 or not is_send() then return false end
    protocol.dissector(tvb, pinfo, root)
    return true
end)
