package cli

import (
	"bytes"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCertificate: the certificate is reused, is valid for every local name, and has a unique subject.
func TestCertificate(t *testing.T) {
	dir := t.TempDir()
	first, err := localCertificate(dir)
	if err != nil {
		t.Fatal(err)
	}
	again, err := localCertificate(dir)
	if err != nil || !bytes.Equal(first.Certificate[0], again.Certificate[0]) {
		t.Errorf("the second call does not return the first certificate: %v", err)
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
	other, err := localCertificate(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(other.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(leaf.RawSubject, parsed.RawSubject) {
		t.Error("two certificates have the same subject")
	}
}

// TestCertificate_Incomplete: a missing or empty file, as after a crash, is replaced. Other contents are
// kept, and the error names the file.
func TestCertificate_Incomplete(t *testing.T) {
	for _, name := range []string{"cert.pem", "key.pem"} {
		for what, content := range map[string][]byte{"missing": nil, "empty": {}, "invalid": []byte("invalid")} {
			t.Run(name+" "+what, func(t *testing.T) {
				dir := t.TempDir()
				first, err := localCertificate(dir)
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
				second, err := localCertificate(dir)
				if what == "invalid" {
					if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "delete") {
						t.Errorf("got %v, want an error that names the file", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if bytes.Equal(first.Certificate[0], second.Certificate[0]) {
					t.Error("the certificate was not replaced")
				}
				third, err := localCertificate(dir)
				if err != nil || !bytes.Equal(second.Certificate[0], third.Certificate[0]) {
					t.Errorf("the next call does not return the new certificate: %v", err)
				}
			})
		}
	}
}

// TestCertificate_NotWritable: after a failed write, the next call succeeds.
func TestCertificate_NotWritable(t *testing.T) {
	for _, name := range []string{"cert.pem", "key.pem"} {
		dir := t.TempDir()
		obstacle := filepath.Join(dir, name+".tmp")
		if err := os.Mkdir(obstacle, 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := localCertificate(dir); err == nil {
			t.Fatalf("%s was not written through %[1]s.tmp", name)
		}
		if err := os.Remove(obstacle); err != nil {
			t.Fatal(err)
		}
		if _, err := localCertificate(dir); err != nil {
			t.Error(err)
		}
	}
}
