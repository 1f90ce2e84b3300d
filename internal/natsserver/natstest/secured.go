package natstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/lockagent/lockagent/internal/natsserver"
)

// StartSecured starts a server that listens on a free loopback port. conf is what a
// configuration file of nats-server says about accounts, users and TLS.
func StartSecured(t testing.TB, conf string) *natsserver.Server {
	t.Helper()
	return Start(t, natsserver.Config{ConfigFile: File(t, conf), Listen: "127.0.0.1:0"})
}

// File returns the path of a new file with the text.
func File(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// NewNkey returns the public key of a new user, and a file with its seed.
func NewNkey(t testing.TB) (public, seedFile string) {
	t.Helper()
	public, seed := newKey(t, nkeys.CreateUser)
	return public, File(t, string(seed))
}

func newKey(t testing.TB, create func() (nkeys.KeyPair, error)) (public string, seed []byte) {
	t.Helper()
	pair, err := create()
	if err != nil {
		t.Fatal(err)
	}
	if public, err = pair.PublicKey(); err != nil {
		t.Fatal(err)
	}
	if seed, err = pair.Seed(); err != nil {
		t.Fatal(err)
	}
	return public, seed
}

// Operator is a new operator with one account. It makes users that a server knows by
// their JWT alone.
type Operator struct {
	Conf string // what the server's configuration says of it

	account nkeys.KeyPair
}

// NewOperator makes an operator.
func NewOperator(t testing.TB) *Operator {
	t.Helper()
	o := &Operator{}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	operator, err := nkeys.CreateOperator()
	check(err)
	public, err := operator.PublicKey()
	check(err)
	accounts := make(map[string]string)
	add := func(limits jwt.JetStreamLimits) (nkeys.KeyPair, string) {
		pair, err := nkeys.CreateAccount()
		check(err)
		id, err := pair.PublicKey()
		check(err)
		claims := jwt.NewAccountClaims(id)
		claims.Limits.JetStreamLimits = limits
		accounts[id], err = claims.Encode(operator)
		check(err)
		return pair, id
	}
	_, system := add(jwt.JetStreamLimits{})
	o.account, _ = add(jwt.JetStreamLimits{DiskStorage: -1, MemoryStorage: -1, Streams: -1, Consumer: -1})
	claims := jwt.NewOperatorClaims(public)
	claims.SystemAccount = system
	text, err := claims.Encode(operator)
	check(err)
	o.Conf = fmt.Sprintf("operator: %s\nresolver: MEMORY\nresolver_preload: {\n", text)
	for id, text := range accounts {
		o.Conf += fmt.Sprintf("  %s: %s\n", id, text)
	}
	o.Conf += "}\n"
	return o
}

// Creds returns the credentials, as in a file, of a new user who may do everything
// until the given time.
func (o *Operator) Creds(t testing.TB, until time.Time) string {
	t.Helper()
	public, seed := newKey(t, nkeys.CreateUser)
	claims := jwt.NewUserClaims(public)
	claims.Expires = until.Unix()
	text, err := claims.Encode(o.account)
	if err != nil {
		t.Fatal(err)
	}
	creds, err := jwt.FormatUserConfig(text, seed)
	if err != nil {
		t.Fatal(err)
	}
	return string(creds)
}

// Certs are the paths of PEM files.
type Certs struct {
	CA                    string
	ServerCert, ServerKey string // for the address 127.0.0.1 and the name nats.test
	ClientCert, ClientKey string
	ClientBoth            string // certificate and key in one file
}

// NewCerts makes an authority and what it vouches for.
func NewCerts(t testing.TB) Certs {
	t.Helper()
	authority, key := newCert(t, nil, nil)
	var c Certs
	c.CA = File(t, encode("CERTIFICATE", authority.Raw))
	cert, private := signed(t, authority, key)
	c.ServerCert, c.ServerKey = File(t, cert), File(t, private)
	cert, private = signed(t, authority, key)
	c.ClientCert, c.ClientKey, c.ClientBoth = File(t, cert), File(t, private), File(t, cert+private)
	return c
}

// signed returns a new certificate and its key in PEM.
func signed(t testing.TB, authority *x509.Certificate, by *ecdsa.PrivateKey) (cert, private string) {
	t.Helper()
	c, key := newCert(t, authority, by)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return encode("CERTIFICATE", c.Raw), encode("PRIVATE KEY", der)
}

// newCert makes a certificate that by has signed for authority, or an authority if that
// is nil.
func newCert(t testing.TB, authority *x509.Certificate, by *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: "lockagent test"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:     []string{"nats.test"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	if authority == nil {
		template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
		template.DNSNames, template.IPAddresses, template.ExtKeyUsage = nil, nil, nil
		authority, by = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority, key.Public(), by)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}
