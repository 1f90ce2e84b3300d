// Package democmd has the verb demo, and the one by which demo starts its agents.
package democmd
