package emulator

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	certificateFile = "cert.pem"
	privateKeyFile  = "key.pem"

	certificateLife = 10 * 365 * 24 * time.Hour
)

// Certificate returns the self-signed certificate for localhost, 127.0.0.1 and
// ::1 that is kept in the data directory. The first call makes it: cert.pem is
// what clients are told to trust, key.pem its private key. One that has expired
// is made anew.
func Certificate(dir string) (tls.Certificate, error) {
	certPath, keyPath := filepath.Join(dir, certificateFile), filepath.Join(dir, privateKeyFile)
	c, err := tls.LoadX509KeyPair(certPath, keyPath)
	switch {
	case err == nil && time.Now().Before(c.Leaf.NotAfter):
		return c, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return tls.Certificate{}, fmt.Errorf("read certificate in %s: %w", dir, err)
	}
	certPEM, keyPEM, err := newCertificate(time.Now())
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make certificate: %w", err)
	}
	// The key first: a certificate without its key would not be made anew.
	if err := errors.Join(os.WriteFile(keyPath, keyPEM, 0o600), os.WriteFile(certPath, certPEM, 0o644)); err != nil {
		return tls.Certificate{}, fmt.Errorf("keep certificate: %w", err)
	}
	return tls.X509KeyPair(certPEM, keyPEM)
}

func newCertificate(now time.Time) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		// The serial number in the name lets a client trust the certificates of
		// several emulators: OpenSSL finds an issuer by its name alone.
		Subject:               pkix.Name{CommonName: "localhost", Organization: []string{"Byline emulator"}, SerialNumber: serial.Text(16)},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(certificateLife),
		DNSNames:              []string{"localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true, // so that clients which want an authority can be given this file
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), nil
}
