// Package hashslot knows in which slot of a Redis Cluster a key is.
package hashslot

import "strings"

// Count is how many hash slots a Cluster has.
const Count = 16384

// Of is the hash slot of a key. It is the CRC16 of the text between the first '{' and
// the next '}', or of the whole key if there is no such text.
func Of(key string) uint16 {
	if _, tail, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(tail, "}"); ok && tag != "" {
			key = tag
		}
	}
	var crc uint16
	for i := range len(key) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^key[i]]
	}
	return crc % Count
}

// crcTable is that of CRC-16/XMODEM, whose polynomial is 0x1021.
var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()
