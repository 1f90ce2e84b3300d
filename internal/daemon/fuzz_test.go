//go:build linux

package daemon

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/claims"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// A connection may say anything, and then nothing more.
func FuzzConnection(f *testing.F) {
	const head = " HTTP/1.1\r\nHost: x\r\nContent-Type: application/"
	acquire := frame(0, marshal(&lockagentv1.AcquireRequest{Name: "mine/door"}))
	for _, seed := range []string{
		"POST /lockagent.v1.LockService/Release" + head + "json\r\nContent-Length: 13\r\n\r\n{\"claim\":\"x\"}",
		"POST /lockagent.v1.LookService/List" + head + "json\r\nContent-Length: 2\r\n\r\n{}",
		"GET /lockagent.v1.LookService/List?connect=v1&encoding=json&message={} HTTP/1.1\r\nHost: x\r\n\r\n",
		fmt.Sprintf(
			"POST /lockagent.v1.LockService/Acquire"+head+"connect+proto\r\nContent-Length: %d\r\n\r\n%s", len(acquire), acquire,
		),
		fmt.Sprintf(
			"POST /lockagent.v1.LockService/Acquire"+head+"grpc-web\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n",
			len(acquire), acquire,
		),
		"POST /lockagent.v1.LockService/Acquire" + head + "connect+proto\r\nContent-Length: 5\r\n\r\n\x00\xff\xff\xff\xff",
		"POST /lockagent.v1.LockService/Release" + head +
			"proto\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08",
		"POST /lockagent.v1.LockService/Release" + head +
			"json\r\nExpect: 100-continue\r\nConnect-Timeout-Ms: 99999999999999999999\r\nContent-Length: 9\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	for _, protocol := range protocols {
		f.Add(recorded(f, protocol))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		synctest.Test(t, func(t *testing.T) {
			b := besiege(t)
			conn := b.dial(fuzzerUID)
			go func() { _, _ = conn.Write(sent) }()
			go func() { _, _ = io.Copy(io.Discard, conn) }()
			synctest.Wait()
			b.unharmed()
			time.Sleep(defaultRead + time.Second) // for the rest of a request, which does not come
			synctest.Wait()
			b.unharmed()
			_ = conn.Close()
			synctest.Wait()
			b.end()
		})
	})
}

// Each procedure gets any bytes as its message, in each protocol.
func FuzzBody(f *testing.F) {
	bodies := [][]byte{[]byte("\x0a\x09mine/door"), frame(0, []byte("\x0a\x09mine/door")), []byte(`{"name":"mine/door"}`)}
	for i, procedure := range procedures {
		for j, protocol := range protocols {
			fits := 0
			if procedure.streams || protocol.framed {
				fits = 1
			} else if protocol.json {
				fits = 2
			}
			f.Add(uint8(i), uint8(j), bodies[fits])
			if i < len(protocols) { // what does not fit is refused before the procedure matters
				f.Add(uint8(i), uint8(j), bodies[(fits+1)%len(bodies)])
			}
		}
	}
	f.Add(uint8(0), uint8(0), []byte(`{"name":"mine/door","wait":"-1s","labels":{"":""},"kind":"KIND_FAIR","x":[[[[`))
	f.Fuzz(func(t *testing.T, procedure, protocol uint8, body []byte) {
		synctest.Test(t, func(t *testing.T) {
			b := besiege(t)
			a := b.client(fuzzerUID)
			a.post(protocols[int(protocol)%len(protocols)], procedures[int(procedure)%len(procedures)], bytes.NewReader(body))
			synctest.Wait()
			b.unharmed()
			a.end()
			b.gone()
			b.end()
		})
	})
}

// Programs of many calls. The messages are well formed, but what they say is wrong: names and ids of others, wrong
// secrets and numbers, fields that do not fit together. All calls of a program go on until it ends them, or ends
// itself.
func FuzzCalls(f *testing.F) {
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{3, 5, 0, 0, 1, 0, 2, 3, 4, 0, 0, 0, 7, 1}, 8))
	for i := range 24 { // each of these begins with other calls
		f.Add(bytes.Repeat([]byte{byte(i), byte(7 * i), byte(i / 3), byte(13 * i), 1, 2, byte(5 * i)}, 40))
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		synctest.Test(t, func(t *testing.T) {
			b := besiege(t)
			a := b.client(fuzzerUID)
			a.source = program
			for range 32 {
				if len(a.source) == 0 {
					break
				}
				a.step()
				synctest.Wait()
				b.unharmed()
			}
			a.end()
			b.gone()
			b.end()
		})
	})
}

// recorder keeps what a client sends.
type recorder struct {
	net.Conn
	mu   sync.Mutex
	sent []byte // guarded by mu
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = append(r.sent, p...)
	return r.Conn.Write(p)
}

// recorded is what a client sends in a protocol.
func recorded(t testing.TB, p protocol) []byte {
	d := run(t)
	client, first := httpClient(t, d.path, p.version), new(recorder)
	client.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer(d.path)(ctx, network, address)
		if first.Conn != nil {
			return conn, err
		}
		first.Conn = conn
		return first, err
	}
	for _, path := range []string{"/lockagent.v1.LookService/List", "/lockagent.v1.LockService/Acquire"} {
		of := procedureOf(path)
		kind := p.unary
		if of.streams {
			kind = p.stream
		}
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(
			ctx, http.MethodPost, baseURL+path, bytes.NewReader(p.body(of, &lockagentv1.AcquireRequest{Name: "mine/door"})),
		)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", kind)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = resp.Body.Read(make([]byte, 1))
		cancel()
		_ = resp.Body.Close()
	}
	first.mu.Lock()
	defer first.mu.Unlock()
	return bytes.Clone(first.sent)
}

// step does what the source says next.
func (a *fuzzClient) step() {
	switch a.byte() % 8 {
	default:
		of := procedures[int(a.byte())%len(procedures)]
		p := protocols[int(a.byte())%len(protocols)]
		m := of.input.New()
		a.fill(m, 0)
		a.post(p, of, bytes.NewReader(p.body(of, m.Interface())))
	case 3:
		a.repeats()
	case 4:
		a.open()
	case 5:
		m := &lockagentv1.SubmitRequest{}
		a.fill(m.ProtoReflect(), 0)
		if a.byte()%8 != 7 {
			m.Link = a.linkID()
		}
		a.submits(m)
	case 6:
		time.Sleep([]time.Duration{time.Millisecond, time.Second, fuzzerLease / 2, time.Hour}[a.byte()%4])
	case 7:
		if n := len(a.calls); n > 0 {
			a.calls[int(a.byte())%n].cancel()
		}
		if a.submit != nil && a.byte()%4 == 0 {
			_ = a.submit.Close()
			a.submit = nil
		}
	}
}

// repeated is a lock for which the fuzzer asks with one secret alone.
const repeated = "mine/repeated"

// repeats asks for a lock several times at once, on connections of their own, with one secret. All of that is one
// claim.
func (a *fuzzClient) repeats() {
	secret := strings.Repeat("r", claims.MinSecret)
	acquire := procedureOf(lockagentv1connect.LockServiceAcquireProcedure)
	attach := procedureOf(lockagentv1connect.LockServiceAttachProcedure)
	for range 2 + a.byte()%6 {
		p := protocols[int(a.byte())%len(protocols)]
		if a.byte()%4 == 3 {
			a.post(p, attach, bytes.NewReader(p.body(attach, &lockagentv1.AttachRequest{Secret: secret})))
		} else {
			a.post(p, acquire, bytes.NewReader(p.body(acquire, &lockagentv1.AcquireRequest{Name: repeated, Secret: secret})))
		}
	}
	synctest.Wait()
	if l := a.b.d.book.Lock(repeated); l.Held+l.Waiting > 1 {
		a.b.must(fmt.Errorf("%d hold and %d wait with one secret", l.Held, l.Waiting))
	}
}

// byte is the next one of the source, and 0 behind its end.
func (a *fuzzClient) byte() byte {
	if len(a.source) == 0 {
		return 0
	}
	next := a.source[0]
	a.source = a.source[1:]
	return next
}

// fill sets fields of a message.
func (a *fuzzClient) fill(m protoreflect.Message, depth int) {
	if d, ok := m.Interface().(*durationpb.Duration); ok {
		d.Seconds = []int64{0, 0, 1, 60, 3600, 366 * 24 * 3600, -1, 1 << 62}[a.byte()%8]
		d.Nanos = []int32{0, 1, 1e6, -1, 1 << 30, -1 << 31}[a.byte()%6]
		return
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if a.byte()%3 == 0 {
			continue
		}
		switch {
		case f.IsMap():
			for range a.byte() % 20 {
				m.Mutable(f).Map().Set(protoreflect.ValueOfString(a.text()).MapKey(), protoreflect.ValueOfString(a.text()))
			}
		case f.IsList():
			for range a.byte() % 8 {
				list := m.Mutable(f).List()
				if f.Message() == nil {
					list.Append(a.scalar(f))
				} else if depth < 3 {
					a.fill(list.AppendMutable().Message(), depth+1)
				}
			}
		case f.Message() == nil:
			m.Set(f, a.scalar(f))
		case depth < 3:
			a.fill(m.Mutable(f).Message(), depth+1)
		}
	}
}

// scalar is a value for a field: one with which something could go wrong.
func (a *fuzzClient) scalar(f protoreflect.FieldDescriptor) protoreflect.Value {
	numbers := []int64{0, 1, 2, 3, -1, 100, 1 << 31, -1 << 31, 1<<63 - 1, -1 << 63, int64(a.b.token), int64(a.byte())}
	n := numbers[int(a.byte())%len(numbers)]
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(a.text())
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(n%2 == 0)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(a.byte()%12) - 1)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(n)
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(n))
	}
	panic("the fuzzer does not know the kind of " + f.FullName())
}

// text is a name, an id or a secret, of the fuzzer or of its victim. The fuzzer does not know the secrets of the
// victim.
func (a *fuzzClient) text() string {
	words := []string{
		"mine/door", "mine/desk", "mine/seats", victimLock, a.b.id, a.b.next, a.b.link, "job",
		strings.Repeat("m", claims.MinSecret), strings.Repeat("n", claims.MinSecret),
		"guess", "**", "mine/*", "a}b", "\x00", strings.Repeat("x", 600), lockagentv1connect.LockServiceName, "",
		a.ownClaim(),
	}
	i := int(a.byte())
	if i < len(words)*8 {
		return words[i%len(words)]
	}
	n := min(int(a.byte()), len(a.source))
	text := strings.ToValidUTF8(string(a.source[:n]), "")
	a.source = a.source[n:]
	return text
}

// ownClaim is the id of a claim of the fuzzer.
func (a *fuzzClient) ownClaim() string {
	locks, _, _ := a.b.d.book.Locks(background, func(name lockagent.Name) bool { return name != victimLock }, "", 1)
	for _, l := range locks {
		for _, c := range slices.Concat(l.Holders, l.Waiters) {
			return c.ID
		}
	}
	return ""
}
