package config

import (
	"fmt"
	"strconv"
	"strings"
)

// Size is a number of bytes.
type Size int64

// units are those of sizes, the largest first.
var units = []struct {
	name  string
	bytes Size
}{
	{"TiB", 1 << 40},
	{"TB", 1e12},
	{"GiB", 1 << 30},
	{"GB", 1e9},
	{"MiB", 1 << 20},
	{"MB", 1e6},
	{"KiB", 1 << 10},
	{"kB", 1e3},
	{"B", 1},
}

// parseSize reads a number with a unit.
func parseSize(text string) (Size, error) {
	for _, u := range units {
		digits, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 63)
		if err != nil {
			break
		}
		if Size(n) > (1<<63-1)/u.bytes {
			return 0, fmt.Errorf("%q is too large", text)
		}
		return Size(n) * u.bytes, nil
	}
	return 0, fmt.Errorf("%q is no size", text)
}

// String is the size in the largest unit of which it is a whole number.
func (s Size) String() string {
	if s != 0 {
		for _, u := range units {
			if s%u.bytes == 0 {
				return fmt.Sprint(int64(s/u.bytes), u.name)
			}
		}
	}
	return "0B"
}
