package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockagent/lockagent/internal/redisserver"
)

// certificates is what a server needs to speak TLS.
type certificates struct {
	cert, key string // paths
	roots     *x509.CertPool
}

// WithTLS has the server listen with TLS on a second port, and speak TLS with other servers. See [Server.TLSURL]. All
// servers with the same option have the same certificate, so that they trust each other.
func WithTLS() Option {
	var certs *certificates
	return func(s *Server) {
		if certs == nil {
			certs = newCertificates(s.t, s.t.TempDir())
		}
		s.certs = certs
		s.config.TLS = &redisserver.TLS{Cert: s.certs.cert, Key: s.certs.key}
	}
}

// HasTLS reports whether the program of the server knows TLS. Some are built without.
func (s *Server) HasTLS() bool {
	s.t.Helper()
	return len(s.Do("CONFIG", "GET", "tls-port").([]any)) > 0
}

// TLSURL is the server's address with TLS, as a URL.
func (s *Server) TLSURL() string {
	u := url.URL{Scheme: "rediss", Host: s.TLSAddr()}
	return u.String()
}

// TLSURL is [Cluster.URL] with TLS.
func (c *Cluster) TLSURL() string {
	return urlOf("rediss", (*Server).TLSAddr, c.Nodes, url.Values{})
}

// TLSURL is [Sentinel.URL] with TLS.
func (s *Sentinel) TLSURL() string {
	return urlOf("rediss", (*Server).TLSAddr, s.Watchers, url.Values{"master_set": {MasterSet}})
}

// TLSConfig is the configuration of a client that trusts the server.
func (s *Server) TLSConfig() *tls.Config {
	return &tls.Config{RootCAs: s.certs.roots, MinVersion: tls.VersionTLS12}
}

// newCertificates makes a certificate for 127.0.0.1 that is its own authority.
func newCertificates(t testing.TB, dir string) *certificates {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("redistest: %v", err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	must(err)
	cert, err := x509.ParseCertificate(der)
	must(err)

	c := &certificates{
		cert:  filepath.Join(dir, "cert.pem"),
		key:   filepath.Join(dir, "key.pem"),
		roots: x509.NewCertPool(),
	}
	c.roots.AddCert(cert)
	must(os.WriteFile(c.cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(os.WriteFile(c.key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600))
	return c
}
