package wire

import (
	"encoding/binary"
	"math/bits"
)

// Half of the time to encode a record went into its numbers, nearly all of which are times of a store or
// numbers of requests: 16 digits. So digits are handled eight at a time, as the bytes of one word.
// The first digit is in the lowest byte.

const zeroDigits = 0x3030303030303030

// digitsOf returns the values of the eight digits of n, which is less than 1e8.
func digitsOf(n uint64) uint64 {
	x := n/1e4 | n%1e4<<32                 // four digits in each half
	q := x * 5243 >> 19 & 0x7f0000007f     // 5243/2^19 is as good as 1/100 up to 9999
	x = q | (x-100*q)<<16                  // two digits in each quarter
	q = x * 103 >> 10 & 0x000f000f000f000f // 103/2^10 is as good as 1/10 up to 99
	return q | (x-10*q)<<8
}

// appendNumber appends n in decimal.
func appendNumber(b []byte, n uint64) []byte {
	if n >= 1e8 {
		b = appendNumber(b, n/1e8)
		return binary.LittleEndian.AppendUint64(b, digitsOf(n%1e8)|zeroDigits)
	}
	x := digitsOf(n)
	zeros := min(bits.TrailingZeros64(x)/8, 7) // 0 has one digit
	return appendLast(b, x, 8-zeros)
}

// appendPadded appends the last digits of n, which is less than 1e8.
func appendPadded(b []byte, n uint64, digits int) []byte {
	return appendLast(b, digitsOf(n), digits)
}

// appendLast appends the last of eight digits.
func appendLast(b []byte, x uint64, digits int) []byte {
	end := len(b) + digits
	return binary.LittleEndian.AppendUint64(b, (x|zeroDigits)>>(64-8*digits))[:end]
}
