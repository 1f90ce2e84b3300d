-- met.lua is a part of a function of scripts that acquire: it looks at lock i. It returns if the tenure was
-- withdrawn, or if the name is in use as another kind.
  local notes = pcall('ZMSCORE', keys[n + i], tenure, 'yield', 'polls', 'foreign')
  if notes[1] then
    return 'w'
  end
  local left, err, holder, count, own = call('PTTL', lock), nil, nil, nil, false
  if left ~= -2 then
    local mode
    err, holder, count, own, mode = holders(lock, tenure)
    if err or mode then
      return 'e ' .. (err or 'KIND readwrite')
    end
    local another = holder and not own and other_kind(holder, count, held_as)
    if another then
      return 'e KIND ' .. another
    end
  end
