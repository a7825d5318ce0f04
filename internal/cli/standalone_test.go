package cli

import (
	"crypto/x509"
	"os"
	"os/exec"
	"testing"
)

// TestStandalone_FallbackCertificates: on a machine without CA certificates, the program uses its own.
func TestStandalone_FallbackCertificates(t *testing.T) {
	if os.Getenv("SSL_CERT_DIR") != "/nonexistent" {
		cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), "SSL_CERT_FILE=/nonexistent", "SSL_CERT_DIR=/nonexistent")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		t.Fatal(err)
	}
	if pool.Equal(x509.NewCertPool()) {
		t.Error("there are no certificates")
	}
}
