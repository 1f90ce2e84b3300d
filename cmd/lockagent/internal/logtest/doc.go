// Package logtest makes up event logs, for tests.
package logtest
