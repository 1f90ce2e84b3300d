-- met.lua is a part of a function of scripts that acquire: it looks at lock i, and returns if the tenure was withdrawn, or if the
-- key is no plain lock.
  local notes = pcall('ZMSCORE', keys[n + i], tenure, 'yield', 'polls', 'taken')
  if notes[1] then
    return 'w'
  end
  local left, err, holder, own = call('PTTL', lock), nil, nil, false
  if left ~= -2 then
    local _, mode
    err, holder, _, own, mode = holders(lock, tenure)
    if err or mode then
      return 'e ' .. (err or 'KIND readwrite')
    end
  end
