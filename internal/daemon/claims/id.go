package claims

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"time"
)

// newID makes the id of a claim: a UUID of version 7. The ids of later claims come later in the order of texts, but for
// those of the same millisecond.
func newID(now time.Time) string {
	var b [18]byte
	_, _ = rand.Read(b[8:]) // it never fails
	binary.BigEndian.PutUint64(b[:], uint64(now.UnixMilli()))
	u := b[2:] // the first two bytes of the time are 0 for eight thousand years
	u[6] = u[6]&0x0f | 0x70
	u[8] = u[8]&0x3f | 0x80
	text := make([]byte, 0, 36)
	for i, end := range [...]int{4, 6, 8, 10, 16} {
		begin := [...]int{0, 4, 6, 8, 10}[i]
		if begin > 0 {
			text = append(text, '-')
		}
		text = hex.AppendEncode(text, u[begin:end])
	}
	return string(text)
}

// fingerprint is all that the daemon keeps of a secret. Secrets are random and long, so one round of a hash is enough.
type fingerprint [sha256.Size]byte

func fingerprintOf(secret string) fingerprint { return sha256.Sum256([]byte(secret)) }

func (f *fingerprint) matches(secret string) bool {
	other := fingerprintOf(secret)
	return subtle.ConstantTimeCompare(f[:], other[:]) == 1
}

func newSecret() string {
	var b [18]byte
	_, _ = rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}
