package events

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/lockagent/lockagent"
)

// No error in this file has anything in it that a file says.

func badOption(option, format string, args ...any) error {
	return &lockagent.OptionError{Option: option, Reason: fmt.Sprintf(format, args...)}
}

// checkIdentity returns an error for fields that contradict each other.
func (c *Connection) checkIdentity() error {
	var errs []error
	bad := func(option, format string, args ...any) {
		errs = append(errs, badOption(option, format, args...))
	}
	if ways := c.ways(); len(ways) > 1 {
		bad(ways[1], "%s says already who we are; leave one of the two out", ways[0])
	}
	user, hasUser := "User", c.User != "" || c.UserFile != ""
	if c.UserFile != "" {
		user = "UserFile"
	}
	switch {
	case c.User != "" && c.UserFile != "":
		bad("UserFile", "User has the name already; leave one of the two out")
	case hasUser && c.PasswordFile == "":
		bad(user, "a user needs a password; set PasswordFile too")
	case !hasUser && c.PasswordFile != "" && !c.userInURL():
		bad("PasswordFile", "it is not said whose password this is; set User or UserFile too")
	}
	if c.Key != "" && c.Cert == "" {
		bad("Key", "a private key is of no use without its certificate; set Cert too")
	}
	if option := c.tlsOption(); option != "" && c.InProcess != nil {
		bad(option, "a server in this process is reached without a network and without TLS; leave it out")
	}
	return errors.Join(errs...)
}

// ways returns the fields that say who we are.
func (c *Connection) ways() []string {
	var ways []string
	for _, way := range []struct {
		field string
		used  bool
	}{
		{"URL", c.userInURL()},
		{"Creds", c.Creds != ""},
		{"Nkey", c.Nkey != ""},
		{"PasswordFile", c.User != "" || c.UserFile != "" || c.PasswordFile != ""},
		{"TokenFile", c.TokenFile != ""},
	} {
		if way.used {
			ways = append(ways, way.field)
		}
	}
	return ways
}

func (c *Connection) userInURL() bool { return strings.Contains(c.URL, "@") }

// tlsOption is a field that asks for TLS, or empty.
func (c *Connection) tlsOption() string {
	switch {
	case c.CA != "":
		return "CA"
	case c.Cert != "":
		return "Cert"
	case c.ServerName != "":
		return "ServerName"
	case c.TLSFirst:
		return "TLSFirst"
	}
	return ""
}

// readable returns what is wrong with the files.
func (c *Connection) readable() error {
	_, _, err := c.userInfo()
	errs := []error{err}
	_, err = c.token()
	errs = append(errs, err)
	_, err = c.rootCAs()
	errs = append(errs, err)
	_, err = c.certificate()
	errs = append(errs, err)
	_, err = c.publicKey()
	errs = append(errs, err)
	if c.Creds != "" {
		_, err = c.jwt()
		errs = append(errs, err)
		_, err = keyPair("Creds", c.Creds)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// identity returns what tells a server who we are. public is the key of Nkey.
func (c *Connection) identity(public string) []nats.Option {
	switch {
	case c.Creds != "":
		return []nats.Option{nats.UserJWT(c.jwt, signer("Creds", c.Creds))}
	case c.Nkey != "":
		return []nats.Option{nats.Nkey(public, signer("Nkey", c.Nkey))}
	case c.PasswordFile != "":
		return []nats.Option{nats.UserInfoHandler(func() (string, string) {
			user, password, _ := c.userInfo() // it was read a moment ago, when the connection was dialled
			return user, password
		})}
	case c.TokenFile != "":
		return []nats.Option{nats.TokenHandler(func() string {
			token, _ := c.token() // likewise
			return token
		})}
	}
	return nil
}

// signer returns what signs with the seed in a file.
func signer(option, path string) nats.SignatureHandler {
	return func(nonce []byte) ([]byte, error) {
		pair, err := keyPair(option, path)
		if err != nil {
			return nil, err
		}
		return pair.Sign(nonce)
	}
}

// publicKey returns that of Nkey, or an empty text if there is none.
func (c *Connection) publicKey() (string, error) {
	if c.Nkey == "" {
		return "", nil
	}
	pair, err := keyPair("Nkey", c.Nkey)
	if err != nil {
		return "", err
	}
	return pair.PublicKey()
}

// stillReadable is readable once the client library has the public key of Nkey, which it
// does not take again.
func (c *Connection) stillReadable(public string) error {
	if err := c.readable(); err != nil {
		return err
	}
	now, err := c.publicKey()
	if err == nil && now != public {
		err = badOption("Nkey", "%s has another key than at the start; start again to use it", c.Nkey)
	}
	return err
}

// tls returns what makes a connection use TLS, if c asks for it.
func (c *Connection) tls() []nats.Option {
	if c.tlsOption() == "" {
		return nil
	}
	options := []nats.Option{nats.Secure(&tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName})}
	if c.TLSFirst {
		options = append(options, nats.TLSHandshakeFirst())
	}
	var certificate nats.TLSCertHandler
	if c.Cert != "" {
		certificate = c.certificate
	}
	var roots nats.RootCAsHandler
	if c.CA != "" {
		roots = c.rootCAs
	}
	if certificate != nil || roots != nil {
		options = append(options, nats.ClientTLSConfig(certificate, roots))
	}
	return options
}

// jwt returns the JWT in the credentials file.
func (c *Connection) jwt() (string, error) {
	text, err := readFile("Creds", c.Creds)
	if err != nil {
		return "", err
	}
	jwt, err := nkeys.ParseDecoratedJWT(text)
	if err != nil || !strings.HasPrefix(jwt, "eyJ") || strings.Count(jwt, ".") != 2 {
		return "", badOption("Creds", "%s has no JWT of a user; give the credentials file that nsc has made", c.Creds)
	}
	return jwt, nil
}

// keyPair returns the key of a user whose seed is in a file.
func keyPair(option, path string) (nkeys.KeyPair, error) {
	text, err := readFile(option, path)
	if err != nil {
		return nil, err
	}
	pair, err := nkeys.ParseDecoratedUserNKey(bytes.TrimSpace(text))
	if err != nil {
		return nil, badOption(option, "%s has no seed of a user, which begins with SU: %v", path, err)
	}
	return pair, nil
}

// userInfo returns two empty texts if there is no user.
func (c *Connection) userInfo() (user, password string, err error) {
	user = c.User
	if c.UserFile != "" {
		if user, err = readLine("UserFile", c.UserFile); err != nil {
			return "", "", err
		}
	}
	if c.PasswordFile != "" {
		password, err = readLine("PasswordFile", c.PasswordFile)
	}
	return user, password, err
}

// token returns an empty text if there is none.
func (c *Connection) token() (string, error) {
	if c.TokenFile == "" {
		return "", nil
	}
	return readLine("TokenFile", c.TokenFile)
}

// rootCAs returns nil for those of the operating system.
func (c *Connection) rootCAs() (*x509.CertPool, error) {
	if c.CA == "" {
		return nil, nil
	}
	text, err := readFile("CA", c.CA)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, badOption("CA", "%s has no certificate in PEM form", c.CA)
	}
	return pool, nil
}

// certificate returns the zero certificate if there is none.
func (c *Connection) certificate() (tls.Certificate, error) {
	if c.Cert == "" {
		return tls.Certificate{}, nil
	}
	cert, err := readFile("Cert", c.Cert)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, option, path := cert, "Cert", c.Cert
	if c.Key != "" {
		option, path = "Key", c.Key
		if key, err = readFile(option, path); err != nil {
			return tls.Certificate{}, err
		}
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return tls.Certificate{}, badOption(option, "%s does not make a client certificate: %v", path, err)
	}
	return pair, nil
}

func readFile(option, path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, badOption(option, "the file cannot be read: %v", err)
	}
	return text, nil
}

// readLine returns what a file has in its only line.
func readLine(option, path string) (string, error) {
	text, err := readFile(option, path)
	if err != nil {
		return "", err
	}
	line := strings.TrimRight(string(text), "\r\n")
	switch {
	case line == "":
		return "", badOption(option, "%s is empty", path)
	case strings.ContainsAny(line, "\r\n"):
		return "", badOption(option, "%s has more than one line", path)
	}
	return line, nil
}
