package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// newCertificate makes a certificate for redis.test that vouches for itself, and returns it with its key, in PEM.
func newCertificate(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{"redis.test"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return append(
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...,
	)
}

func write(t *testing.T, name string, text []byte) string {
	t.Helper()
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// handshake connects to a server that wants a client certificate, and returns the one that it gets, or what the client
// has against the server.
func handshake(t *testing.T, server, client *tls.Config) ([]byte, error) {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan []byte, 1)
	go func() {
		defer close(got)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if served := conn.(*tls.Conn); served.Handshake() == nil {
			got <- served.ConnectionState().PeerCertificates[0].Raw
		}
	}()
	conn, err := tls.Dial("tcp", listener.Addr().String(), client)
	if err == nil {
		defer conn.Close()
	}
	defer listener.Close()
	return <-got, err
}

func TestTLSOfRedis(t *testing.T) {
	dir := t.TempDir()
	theirs, ours := newCertificate(t), write(t, filepath.Join(dir, "client.pem"), newCertificate(t))
	authority := write(t, filepath.Join(dir, "ca.pem"), theirs)
	stranger := write(t, filepath.Join(dir, "other.pem"), newCertificate(t))
	pair, err := tls.X509KeyPair(theirs, theirs)
	if err != nil {
		t.Fatal(err)
	}
	server := &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert}

	client, err := (&Redis{CA: authority, Cert: ours, Key: ours, ServerName: "redis.test"}).TLS()
	if err != nil {
		t.Fatal(err)
	}
	first, err := handshake(t, server, client)
	if err != nil || len(first) == 0 {
		t.Fatalf("the server has got %d bytes of a certificate: %v", len(first), err)
	}
	// Another client certificate counts from the next connection on.
	write(t, ours, newCertificate(t))
	if second, err := handshake(t, server, client); err != nil || string(second) == string(first) || len(second) == 0 {
		t.Errorf("the server has got the certificate of before: %v", err)
	}
	for says, r := range map[string]Redis{
		"unknown authority": {CA: stranger, Cert: ours, Key: ours, ServerName: "redis.test"},
		"not another.test":  {CA: authority, Cert: ours, Key: ours, ServerName: "another.test"},
	} {
		client, err := r.TLS()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := handshake(t, server, client); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("the client says %v, want what says %q", err, says)
		}
	}
}

func TestTLSErrors(t *testing.T) {
	if cfg, err := (&Redis{URL: "rediss://a"}).TLS(); cfg != nil || err != nil {
		t.Errorf("without settings about TLS there are %v: %v", cfg, err)
	}
	dir := t.TempDir()
	one := write(t, filepath.Join(dir, "one.pem"), newCertificate(t))
	other := write(t, filepath.Join(dir, "other.pem"), newCertificate(t))
	none := write(t, filepath.Join(dir, "none.pem"), []byte("x"))
	for says, r := range map[string]Redis{
		"/no/such/file: no such file":                                    {CA: "/no/such/file"},
		none + ": there is no certificate":                               {CA: none},
		"the client certificate in " + one + " with the key in " + other: {Cert: one, Key: other},
	} {
		if cfg, err := r.TLS(); cfg != nil || err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: got %v, %v, want what says %q", r, cfg, err, says)
		}
	}
}
