-- The round-trip extension: transmissions are joined to groups, and bulk data is found in the segments of the receiver's
-- buffers, whose structure it has told as a transport property. What a frame was found to be is kept for when it is shown
-- again.

local MEMBERS = { ROPT_XMTREQ = "optxrq_", ROPT_XMTRESP = "optxrs_", ROPT_XMTCONT = "optxc_" }
local PLACED, EXPLICIT, TOO_SHORT = 2, 1, 5
-- What holds for an end that has told its properties, but not these.
local DEFAULTS = { rtr_support = 0, rtr_request_limit = 1, rtr_response_limit = 1 }
local SEGMENTS_MAX = 65536
local RPC_START_OCTETS = 8
local RPC_OCTETS_MAX = 65536 -- of a message, beside the items that were moved out of it

local padding_field = ProtoField.bytes("rpcrdma2.padding", "Padding")
local placed_field = ProtoField.bytes("rpcrdma2.placed", "Bulk data")
local number_field = ProtoField.uint32("rpcrdma2.transmission", "Number of the transmission in its group")
local unknown_field = ProtoField.bytes("rpcrdma2.unknown", "Bulk data and padding, the receiver's buffers are unknown")
protocol.fields = { padding_field, placed_field, number_field, unknown_field }

local groups, begun, structures, transmissions, given_up, told, asked

table.insert(RESET, function()
    groups, begun, structures, transmissions, given_up, told, asked = {}, {}, {}, {}, {}, {}, {}
end)

local function way(pinfo, back)
    local from = string.format("%s/%d", tostring(pinfo.src), pinfo.src_port)
    local to = string.format("%s/%d", tostring(pinfo.dst), pinfo.dst_port)
    return back and to .. ">" .. from or from .. ">" .. to
end

local function place_of(walk, tvb, pinfo)
    return string.format("%d/%u/%d", pinfo.number, walk.found.rdma_xid, tvb:offset())
end

local function mark(item, reason)
    item:add_proto_expert_info(rule_broken, reason)
end

-- What was read: segments of buffers, items, ranges of directions, and names of transmissions

AFTER.xmrbs_group = function(walk)
    local told = walk.structure or { octets = 0, segments = 0, placeable = {} }
    walk.structure = told
    local count, length = walk.found.xmrgrp_count, walk.found.xmrseg_length
    told.segments = told.segments + count
    if told.segments <= SEGMENTS_MAX and walk.found.xmrseg_flags % 2 == 1 then
        for number = 0, count - 1 do
            table.insert(told.placeable, { start = told.octets + number * length, length = length })
        end
    end
    told.octets = told.octets + count * length
end

AFTER.xmrbs_buf = function(walk)
    local told = walk.structure
    local octets = told and told.octets or 0
    if octets ~= walk.found.xmrbuf_length then
        mark(walk.items.xmrbuf_length,
            string.format("the segments have %d octets, the buffer %d", octets, walk.found.xmrbuf_length))
        walk.structure = nil
    elseif told and told.segments > SEGMENTS_MAX then
        walk.structure = nil
    end
end

local function take_item(walk)
    local found = walk.found
    local item = { position = found.xmdmi_disp, length = found.xmdmi_length, kind = found.xmdl_type, numbers = {} }
    item.shown = { xmdmi_length = walk.items.xmdmi_length, xmdl_type = walk.items.xmdl_type }
    if item.kind == PLACED then
        item.offset, item.numbers = found.xmdl_offset, walk.listed.xmdl_bsnum
        item.shown.xmdl_offset = walk.items.xmdl_offset
        item.shown.xmdl_bsnum = walk.items.xmdl_bsnum or walk.items.xmdl_offset
    end
    walk.placed = walk.placed or {}
    table.insert(walk.placed, item)
    if item.kind ~= PLACED and item.kind ~= EXPLICIT then return end
    if item.position % 4 ~= 0 then
        mark(walk.items.xmdmi_disp, "a Position is a multiple of 4")
    elseif item.position < (walk.item_end or 0) then
        mark(walk.items.xmdmi_disp, string.format("%d or more is needed after the item before", walk.item_end))
    end
    walk.item_end = item.position + item.length + (4 - item.length % 4) % 4
end

AFTER.xmddp_reqitem = take_item
AFTER.xmddp_respitem = take_item

AFTER.xmddp_rsditem = function(walk)
    walk.directions = walk.directions or {}
    table.insert(walk.directions, { least = walk.found.xmdrsdi_minlen, kind = walk.found.xmdrsdl_type })
end

AFTER.xmddp_rsdset = function(walk)
    local found = walk.found
    local before = walk.range_end or 0
    if found.xmdrsdr_end < found.xmdrsdr_begin then
        mark(walk.items.xmdrsdr_end, string.format("the range begins at %d", found.xmdrsdr_begin))
    elseif found.xmdrsdr_begin < before then
        mark(walk.items.xmdrsdr_begin, string.format("%d or more is needed after the range before", before))
    end
    walk.range_end = math.max(before, found.xmdrsdr_begin + 1, found.xmdrsdr_end)
end

AFTER.xms_id = function(walk)
    if walk.found.xmsi_dir > 1 then
        walk:fail(walk.items.xmsi_dir, "neither a request's nor a response's")
        walk.failed = false
    end
end

-- The flag RESPONSE; nil where a draft has no flags.
local function response_of(walk)
    local flags = walk.found.rdma_flags
    return flags and flags % 2
end

local function contradicts(walk, is_response)
    local response = response_of(walk)
    return response ~= nil and response ~= (is_response and 1 or 0)
end

-- Groups

-- Items that do not fit into the buffers of the group: which, by which member, and why.
local function misplaced(group)
    local wrong, known = {}, #group.structure
    for index, item in ipairs(group.items) do
        if item.kind == PLACED then
            local room, beyond = 0, nil
            for _, number in ipairs(item.numbers) do
                if number >= known * group.count then
                    beyond = beyond or number
                else
                    room = room + group.structure[number % known + 1].length
                end
            end
            local first = not beyond and item.numbers[1] and group.structure[item.numbers[1] % known + 1].length
            if beyond then
                table.insert(wrong, { index, "xmdl_bsnum",
                    string.format("segment %u, the group has %d", beyond, known * group.count) })
            elseif first and item.offset >= first then
                table.insert(wrong, { index, "xmdl_offset",
                    string.format("offset %u in a segment of %d octets", item.offset, first) })
            elseif item.length > room - item.offset then
                table.insert(wrong, { index, "xmdmi_length",
                    string.format("%u octets, its segments have room for %d", item.length,
                        math.max(0, room - item.offset)) })
            end
        end
    end
    return wrong
end

-- By the number of the transmission, what it has of the items of its group, in the order of its octets.
local function find_parts(group)
    local found, known = {}, #group.structure
    for index, item in ipairs(group.items) do
        local at, skip = 0, item.offset
        for _, segment in ipairs(known > 0 and item.numbers or {}) do
            local place = group.structure[segment % known + 1]
            local taken = math.min(math.max(0, place.length - skip), item.length - at)
            if taken > 0 then
                local number = math.floor(segment / known)
                found[number] = found[number] or {}
                table.insert(found[number], { start = place.start + skip, octets = taken, item = index, at = at })
            end
            at, skip = at + taken, 0
        end
    end
    for _, parts in pairs(found) do table.sort(parts, function(a, b) return a.start < b.start end) end
    return found
end

-- The RPC message: items stand where they belong, with words for what RDMA moved or what is not in the capture.
local function whole_message(group)
    local octets, moved = group.octets, 0
    for index, item in ipairs(group.items) do
        if item.kind == PLACED or item.kind == EXPLICIT then
            local data = ByteArray.new()
            table.sort(group.data[index], function(a, b) return a.at < b.at end)
            for _, part in ipairs(group.data[index]) do data:append(part.octets) end
            local missing = math.min(item.length - data:len(), JOINED_MAX)
            if item.position > octets:len() or octets:len() + item.length > JOINED_MAX + RPC_OCTETS_MAX then break end
            local padding = (4 - item.length % 4) % 4
            if missing > 0 then
                data:append(moved_item(missing):subset(0, missing))
            end
            if padding > 0 then data:append(ByteArray.new(string.rep("00", padding))) end
            local whole = item.position > 0 and octets:subset(0, item.position) or ByteArray.new()
            whole:append(data)
            if octets:len() > item.position then
                whole:append(octets:subset(item.position, octets:len() - item.position))
            end
            octets, moved = whole, moved + missing
        end
    end
    return octets, moved
end

local function continued(walk, key, broken)
    local group, found = groups[key], walk.found
    if not group then
        if begun[key] and not given_up[key] then
            table.insert(broken, { "rdma_htype", "there is no group to be continued" })
        end
        if contradicts(walk, TYPES[found.optxc_itype] == "ROPT_XMTRESP") then
            table.insert(broken, { "rdma_flags", "RESPONSE does not fit to what is continued" })
        end
        return nil
    end
    local before = #broken
    if found.rdma_xid ~= group.xid then
        table.insert(broken, { "rdma_xid", string.format("the group has XID 0x%08x", group.xid) })
    end
    if found.optxc_xnum ~= group.number then
        table.insert(broken, { "optxc_xnum", string.format("transmission %d is next", group.number) })
    end
    if found.optxc_itype ~= group.code then
        table.insert(broken, { "optxc_itype", "the group has begun with " .. TYPES[group.code] })
    end
    if response_of(walk) ~= group.response then
        table.insert(broken, { "rdma_flags", "RESPONSE does not fit to the group" })
    end
    if #broken == before then return group end
    groups[key], given_up[key] = nil, true
    return nil
end

local function unfinished_group(key, broken)
    if groups[key] then
        table.insert(broken,
            { "rdma_htype", string.format("the group with XID 0x%08x has not ended", groups[key].xid) })
        groups[key] = nil
    end
end

local function begin_group(walk, key, kind, octets, pinfo, broken)
    local found = walk.found
    unfinished_group(key, broken)
    local group = {
        xid = found.rdma_xid, code = found.rdma_htype, count = found[MEMBERS[kind] .. "count"], number = 0,
        response = response_of(walk), items = walk.placed or {}, structure = structures[way(pinfo, true)],
        octets = ByteArray.new(), data = {},
    }
    for index in ipairs(group.items) do group.data[index] = {} end
    group.parts = group.structure and find_parts(group) or {}
    groups[key], begun[key], given_up[key] = group, true, nil
    if group.count == 0 then
        table.insert(broken, { MEMBERS[kind] .. "count", "a group has at least one transmission" })
    end
    -- Where an RPC message begins, a rule is about that.
    if octets < RPC_START_OCTETS and contradicts(walk, kind == "ROPT_XMTRESP") then
        table.insert(broken, { "rdma_flags", "RESPONSE does not fit to " .. kind })
    end
    return group
end

-- What both ends have told, and what a request says of its response

local function check_receiver(pinfo, kind, broken)
    local receiver = told[way(pinfo, true)]
    if receiver and math.floor(receiver.rtr_support / SUPPORT[kind]) % 2 == 0 then
        table.insert(broken, { "rdma_htype", "the receiver does not take " .. kind })
    end
end

local function check_count(count, most, member, who, broken)
    if most and count > most then
        table.insert(broken, { member, string.format("%d transmissions, the %s %d", count, who, most) })
    end
end

local function take_request(walk, pinfo, count, broken)
    local receiver = told[way(pinfo, true)]
    check_count(count, receiver and receiver.rtr_request_limit, "optxrq_count", "receiver takes", broken)
    asked[conversation_key(pinfo, walk.found.rdma_xid)] = {
        directions = walk.directions or {}, extra = walk.found.optxrq_rsbuf,
    }
end

-- Marks are those of `broken`, and of items: which, by which member, and why.
local function check_response(walk, pinfo, count, broken, wrong)
    local sender = told[way(pinfo)]
    check_count(count, sender and sender.rtr_response_limit, "optxrs_count", "sender has said", broken)
    local key = way(pinfo, true) .. "#" .. string.format("%u", walk.found.rdma_xid)
    local request = asked[key]
    asked[key] = nil
    if not request then return end
    check_count(count, request.extra + 1, "optxrs_count", "request allows", broken)
    local items = walk.placed or {}
    if #items ~= #request.directions then
        table.insert(broken, { "optxrs_ddp",
            string.format("%d items, the request has %d directions", #items, #request.directions) })
        return
    end
    for index, item in ipairs(items) do
        local direction = request.directions[index]
        local least = direction.least
        if not RESULTS[direction.kind][item.kind] then
            table.insert(wrong, { index, "xmdl_type",
                string.format("item %d: the request's direction does not allow this", index) })
        elseif (item.kind == EXPLICIT or item.kind == PLACED) and item.length < least then
            table.insert(wrong, { index, "xmdmi_length",
                string.format("item %d: %d octets, the request places %d or more", index, item.length, least) })
        elseif item.kind == TOO_SHORT and item.length >= least then
            table.insert(wrong, { index, "xmdmi_length",
                string.format("item %d: %d octets are not too short, the request places %d", index, item.length, least) })
        end
    end
end

-- What a transmission is in its group, when its frame is seen for the first time.
local function join_group(walk, tvb, pinfo, kind, octets)
    local key, broken = way(pinfo), {}
    local seen = { broken = broken, misplaced = {}, unknown = true }
    local group
    if kind == "ROPT_XMTCONT" then
        group = continued(walk, key, broken)
    else
        group = begin_group(walk, key, kind, octets, pinfo, broken)
        if group.structure then seen.misplaced = misplaced(group) end
        if kind == "ROPT_XMTREQ" then
            take_request(walk, pinfo, group.count, broken)
        else
            check_response(walk, pinfo, group.count, broken, seen.misplaced)
        end
    end
    check_receiver(pinfo, kind, broken)
    if not group then return seen end
    if octets > 0 then
        if group.number > 0 and not group.has_payload then
            table.insert(broken, { "optxc_pslen", "the payload begins in the first transmission" })
        end
        group.has_payload = true
    end
    seen.number, seen.count = group.number, group.count
    seen.unknown = not group.structure and #group.items > 0
    seen.parts = group.parts[group.number] or {}
    if octets > 0 and group.octets:len() + octets <= JOINED_MAX then
        group.octets:append(tvb(walk.at, octets):bytes())
    end
    for _, part in ipairs(seen.parts) do
        if part.start + part.octets <= tvb:len() then
            table.insert(group.data[part.item], { at = part.at, octets = tvb(part.start, part.octets):bytes() })
        end
    end
    group.number = group.number + 1
    if group.number >= group.count then
        groups[key] = nil
        seen.message, seen.moved = whole_message(group)
        seen.simple = group.count == 1 and #group.items == 0
    end
    return seen
end

local function add_padding(tree, tvb, start, stop)
    if start >= stop then return end
    local item = tree:add(padding_field, tvb(start, stop - start))
    if tvb(start, stop - start):bytes():tohex():find("[^0]") then mark(item, "the padding is not zero") end
end

local function add_placed(tree, tvb, start, seen)
    if start == tvb:len() then return end
    if seen.unknown then
        tree:add(unknown_field, tvb(start))
        return
    end
    for _, part in ipairs(seen.parts) do
        local stop = part.start + part.octets
        if part.start < start then
            mark(tree, string.format("item %d overlaps with what is before it", part.item - 1))
        else
            add_padding(tree, tvb, start, math.min(part.start, tvb:len()))
        end
        if stop > tvb:len() then
            mark(tree, string.format("item %d goes beyond the end of the message", part.item - 1))
        end
        if part.start < tvb:len() then
            local item = tree:add(placed_field, tvb(part.start, math.min(part.octets, tvb:len() - part.start)))
            item:append_text(string.format(" (item %d from its octet %d on)", part.item - 1, part.at))
        end
        start = math.max(start, math.min(stop, tvb:len()))
    end
    add_padding(tree, tvb, start, tvb:len())
end

local function dissect_transmission(walk, tvb, pinfo, tree, root)
    local kind = TYPES[walk.found.rdma_htype]
    local said = walk.found[MEMBERS[kind] .. "pslen"]
    local octets = math.min(said, walk:left())
    local place = place_of(walk, tvb, pinfo)
    if not pinfo.visited then transmissions[place] = join_group(walk, tvb, pinfo, kind, octets) end
    local seen = transmissions[place]
    if said > octets then
        mark(walk.items[MEMBERS[kind] .. "pslen"], string.format("%u octets of payload, %d follow", said, octets))
    end
    for _, one in ipairs(seen.broken) do mark(walk.items[one[1]] or tree, one[2]) end
    for _, one in ipairs(seen.misplaced) do mark(walk.placed[one[1]].shown[one[2]], one[3]) end
    local payload_at = walk.at
    if octets > 0 then tree:add(payload_field, tvb(payload_at, octets)) end
    add_placed(tree, tvb, payload_at + octets, seen)
    if seen.number then
        tree:add(number_field, seen.number):set_generated()
        if seen.count > 1 then
            pinfo.cols.info:append(string.format(" [transmission %d of %d]", seen.number, seen.count))
        end
    end
    local rpc = seen.number == 0 and rpc_start(tvb, payload_at, octets) or nil
    if not seen.message then return true, rpc end
    if seen.count > 1 then
        tree:add(pieces_field, seen.number + 1):set_generated()
        tree:add(joined_field, seen.message:len()):set_generated()
    end
    if seen.moved > 0 then tree:add(moved_field, seen.moved):set_generated() end
    local message = seen.message:len() > 0 and seen.message:tvb("RPC message")
    if seen.simple and octets > 0 then message = tvb(payload_at, octets):tvb() end
    if message then
        rpc = rpc_start(message, 0, message:len())
        give_to_rpc(message, pinfo, tree, root)
    end
    return true, rpc
end

for kind in pairs(MEMBERS) do ENDED[kind] = dissect_transmission end

-- Messages within a group that are none of its transmissions, other than errors and grants; `more` may find what else is
-- wrong when the frame is seen for the first time.
local function within_group(walk, tvb, pinfo, tree, more)
    local place = place_of(walk, tvb, pinfo)
    if not pinfo.visited then
        local broken = {}
        if walk.found.rdma_xid ~= 0 then unfinished_group(way(pinfo), broken) end
        if more then more(broken) end
        transmissions[place] = #broken > 0 and { broken = broken } or nil
    end
    for _, one in ipairs(transmissions[place] and transmissions[place].broken or {}) do
        mark(walk.items[one[1]] or tree, one[2])
    end
end

ENDED.ROPT_REPTERR = function(walk, _, pinfo)
    local found, first = walk.found, walk.first
    pinfo.cols.info:append(" " .. (REPORTS[found.optre_which] or "unknown error"))
    if contradicts(walk, first.xmsi_dir == 0) then
        mark(walk.items.rdma_flags, "RESPONSE does not fit to a report about this")
    end
    if first.xmsi_xid ~= found.rdma_xid then
        mark(walk.items.rdma_xid, "not the XID of the transmission that is wrong")
    end
    if not pinfo.visited then
        local key = way(pinfo, true)
        groups[key], given_up[key] = nil, true
    end
end

local function properties_told(walk, tvb, pinfo, tree)
    within_group(walk, tvb, pinfo, tree)
    if pinfo.visited then return end
    local key = way(pinfo)
    if walk.structure then structures[key] = walk.structure.placeable end
    told[key] = told[key] or setmetatable({}, { __index = DEFAULTS })
    for name in pairs(DEFAULTS) do
        if walk.told[name] ~= nil then told[key][name] = walk.told[name] end
    end
end

for _, kind in pairs(TYPES) do
    if kind:match("^RDMA2_CONNPROP") then
        ENDED[kind] = properties_told
    elseif kind:match("^RDMA2_") and kind ~= "RDMA2_ERROR" and kind ~= "RDMA2_GRANT" then
        ENDED[kind] = function(walk, tvb, pinfo, tree) within_group(walk, tvb, pinfo, tree) end
    end
end

