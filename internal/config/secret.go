package config

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// mostSecret bounds a file with a secret.
const mostSecret = 64 << 10

// ReadSecret reads a file with a secret. The line break at its end is no part of it.
func ReadSecret(name string) (string, error) {
	data, err := readBounded(name, mostSecret)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, reasonOf(err))
	}
	secret := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	if secret == "" {
		return "", fmt.Errorf("%s: the file is empty, and has no secret", name)
	}
	return secret, nil
}

// Credentials returns a function that reads the password of Redis anew each time, so that a password that has changed
// in its file is used for the next connection. It is nil if no file has the password.
func (r *Redis) Credentials() func(context.Context) (user, password string, err error) {
	if r.PasswordFile == "" {
		return nil
	}
	return func(context.Context) (user, password string, err error) {
		if u, err := url.Parse(r.URL); err == nil {
			user = u.User.Username()
		}
		password, err = ReadSecret(r.PasswordFile)
		return user, password, err
	}
}

// Address is the URL of Redis with the passwords from their files: only for the one who connects.
func (r *Redis) Address() (string, error) {
	if r.PasswordFile == "" && r.SentinelPasswordFile == "" {
		return r.URL, nil
	}
	u, err := url.Parse(r.URL)
	if err != nil {
		return "", errors.New("redis.url is no URL") // the error would repeat a password
	}
	if r.PasswordFile != "" {
		password, err := ReadSecret(r.PasswordFile)
		if err != nil {
			return "", err
		}
		u.User = url.UserPassword(u.User.Username(), password)
	}
	if r.SentinelPasswordFile != "" {
		password, err := ReadSecret(r.SentinelPasswordFile)
		if err != nil {
			return "", err
		}
		query := u.Query()
		query.Set("sentinel_password", password)
		u.RawQuery = query.Encode()
	}
	return u.String(), nil
}
