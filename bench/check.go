package main

import (
	"context"
	"errors"
	"regexp"
)

func (b *bench) check(ctx context.Context, path string, only *regexp.Regexp) error {
	return errors.ErrUnsupported
}

func (b *bench) writeBaseline(ctx context.Context, path string, only *regexp.Regexp) error {
	return errors.ErrUnsupported
}
