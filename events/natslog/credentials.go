package natslog

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/nats-io/nats.go"

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

// file is an option of the client library that reads a file at each connection. It reads the file also when it is
// applied.
type file struct {
	field  string
	option nats.Option
}

// files returns those that the client library reads.
func (c *Connection) files() (files []file) {
	if c.Creds != "" {
		files = append(files, file{"Creds", nats.UserCredentials(c.Creds)})
	}
	if c.Nkey != "" {
		files = append(files, file{"Nkey", func(o *nats.Options) error {
			option, err := nats.NkeyOptionFromSeed(c.Nkey)
			if err != nil {
				return err
			}
			return option(o)
		}})
	}
	if c.CA != "" {
		files = append(files, file{"CA", nats.RootCAs(c.CA)})
	}
	if c.Cert != "" {
		files = append(files, file{"Cert", nats.ClientCert(c.Cert, cmp.Or(c.Key, c.Cert))})
	}
	return files
}

// readable returns what is wrong with the files now.
func (c *Connection) readable() error {
	_, _, noUser := c.userInfo()
	_, noToken := c.token()
	errs := []error{noUser, noToken}
	var o nats.Options
	for _, f := range c.files() {
		if err := f.option(&o); err != nil {
			errs = append(errs, badFile(f.field, err))
		}
	}
	if o.UserJWT != nil {
		// The client library takes a file without a JWT for a JWT, and sends all of it to the server. It may be a seed.
		if jwt, err := o.UserJWT(); err == nil && !strings.HasPrefix(jwt, "eyJ") {
			errs = append(
				errs, badOption("Creds", "%s has no JWT of a user; give the credentials file that nsc has made", c.Creds),
			)
		}
		if _, err := o.SignatureCB(nil); err != nil {
			errs = append(errs, badFile("Creds", err))
		}
	}
	return errors.Join(errs...)
}

// badFile is the error for what the client library says of a file.
func badFile(option string, err error) error {
	if unread, ok := errors.AsType[*fs.PathError](err); ok {
		return badOption(option, "the file cannot be read: %v", unread)
	}
	return badOption(option, "%v", err)
}

// options returns what tells a server who we are, and what makes the connection use TLS if c asks for it. complain is
// told of a file that cannot be read later. Then the server gets no password and no token, and refuses us.
func (c *Connection) options(complain func(error)) (options []nats.Option) {
	if c.PasswordFile != "" {
		options = append(options, nats.UserInfoHandler(func() (string, string) {
			user, password, err := c.userInfo()
			if err != nil {
				complain(err)
			}
			return user, password
		}))
	}
	if c.TokenFile != "" {
		options = append(options, nats.TokenHandler(func() string {
			token, err := c.token()
			if err != nil {
				complain(err)
			}
			return token
		}))
	}
	if c.tlsOption() != "" {
		options = append(options, nats.Secure(&tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName}))
	}
	if c.TLSFirst {
		options = append(options, nats.TLSHandshakeFirst())
	}
	for _, f := range c.files() {
		options = append(options, f.option)
	}
	return options
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

// readLine returns what a file has in its only line.
func readLine(option, path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", badOption(option, "the file cannot be read: %v", err)
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
