package emulator

import (
	"bytes"
	"crypto/x509"
	"testing"
)

// TestCertificate: it is kept, good for every name of this machine, and can be
// told from another emulator's by its name alone.
func TestCertificate(t *testing.T) {
	dir := t.TempDir()
	first, err := Certificate(dir)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Certificate(dir)
	if err != nil || !bytes.Equal(first.Certificate[0], again.Certificate[0]) {
		t.Errorf("the second call makes another one: %v", err)
	}
	leaf, err := x509.ParseCertificate(first.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	for _, name := range []string{"localhost", "127.0.0.1", "::1"} {
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	other, err := Certificate(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(other.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(leaf.RawSubject, parsed.RawSubject) {
		t.Error("two emulators have one name")
	}
}
