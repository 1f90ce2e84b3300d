package lockagent

import "encoding/binary"

// HoldSum is a number for one hold of an agent. Two holds hardly ever have the same one. The Sum of an [EventAlive] is
// that of all holds of its agent, modulo 2^64. So whoever knows all of them can tell that there are no others: to
// exchange one hold for another changes the sum. Somebody who chooses names of locks can make two holds with one
// number: the sum finds mistakes, and no forgery.
//
// Programs in any language can compute it, because it is always the same. The words of a hold are numbers of 64 bits:
// the bytes of the name of the lock, eight for each word, the least significant byte first, with zeros behind the last
// byte; then the tenure, the token, and how many bytes the name has. Begin with 0, and for each word:
//
//	sum = (sum XOR word) * 0x9e3779b97f4a7c15    modulo 2^64
//	sum = sum XOR (sum >> 32)
func HoldSum(lock Name, tenure uint64, token Token) (sum uint64) {
	add := func(word uint64) {
		sum = (sum ^ word) * 0x9e3779b97f4a7c15
		sum ^= sum >> 32
	}
	rest := lock
	for ; len(rest) >= 8; rest = rest[8:] {
		add(binary.LittleEndian.Uint64([]byte(rest[:8])))
	}
	if len(rest) > 0 {
		var last [8]byte
		copy(last[:], rest)
		add(binary.LittleEndian.Uint64(last[:]))
	}
	add(tenure)
	add(uint64(token))
	add(uint64(len(lock)))
	return sum
}
