// Package enginetest opens embedded engines, and accounts on them, for tests.
package enginetest
