package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
)

// mostCertificates bounds a file with certificates.
const mostCertificates = 4 << 20

// TLS is how to connect to Redis by the settings about TLS, or nil if there are none. The client certificate is read
// anew for each connection, so it can be replaced without a restart.
func (r *Redis) TLS() (*tls.Config, error) {
	if r.CA == "" && r.Cert == "" && r.ServerName == "" {
		return nil, nil
	}
	cfg := &tls.Config{ServerName: r.ServerName, MinVersion: tls.VersionTLS12}
	if r.CA != "" {
		pem, err := readBounded(r.CA, mostCertificates)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.CA, reasonOf(err))
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: there is no certificate in it", r.CA)
		}
	}
	if r.Cert != "" {
		cert, key := r.Cert, r.Key
		load := func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(cert, key)
			if err != nil {
				return nil, fmt.Errorf("the client certificate in %s with the key in %s: %w", cert, key, err)
			}
			return &pair, nil
		}
		if _, err := load(); err != nil {
			return nil, err
		}
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	}
	return cfg, nil
}
