package emulator

import (
	"bytes"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCertificate: it is reused, valid for every local name, and its name differs from that of
// another emulator.
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

// TestCertificate_Incomplete: what a crash can leave is replaced. Other contents are kept, and the
// error names the file.
func TestCertificate_Incomplete(t *testing.T) {
	for _, name := range []string{"cert.pem", "key.pem"} {
		for what, content := range map[string][]byte{"missing": nil, "empty": {}, "rubbish": []byte("rubbish")} {
			t.Run(name+" "+what, func(t *testing.T) {
				dir := t.TempDir()
				first, err := Certificate(dir)
				if err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(dir, name)
				if content == nil {
					err = os.Remove(path)
				} else {
					err = os.WriteFile(path, content, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
				second, err := Certificate(dir)
				if what == "rubbish" {
					if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "delete") {
						t.Errorf("the error is %v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if bytes.Equal(first.Certificate[0], second.Certificate[0]) {
					t.Error("it is still the first")
				}
				third, err := Certificate(dir)
				if err != nil || !bytes.Equal(second.Certificate[0], third.Certificate[0]) {
					t.Errorf("the next start makes another one: %v", err)
				}
			})
		}
	}
}

// TestCertificate_NotWritable: no partial pair is left for the next start.
func TestCertificate_NotWritable(t *testing.T) {
	for _, name := range []string{"cert.pem", "key.pem"} {
		dir := t.TempDir()
		inTheWay := filepath.Join(dir, name+".tmp")
		if err := os.Mkdir(inTheWay, 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := Certificate(dir); err == nil {
			t.Fatalf("%s was written in place", name)
		}
		if err := os.Remove(inTheWay); err != nil {
			t.Fatal(err)
		}
		if _, err := Certificate(dir); err != nil {
			t.Error(err)
		}
	}
}
