package cli

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

// localCertificate returns the self-signed certificate for localhost, 127.0.0.1 and ::1 in the data
// directory: cert.pem, which clients have to trust, and key.pem. It creates the pair if a file is
// missing or empty, or the certificate has expired.
func localCertificate(dir string) (tls.Certificate, error) {
	certPath, keyPath := filepath.Join(dir, certificateFile), filepath.Join(dir, privateKeyFile)
	certPEM, err := readPEM(certPath)
	if err != nil {
		return tls.Certificate{}, err
	}
	keyPEM, err := readPEM(keyPath)
	if err != nil {
		return tls.Certificate{}, err
	}
	if len(certPEM) > 0 && len(keyPEM) > 0 {
		c, err := tls.X509KeyPair(certPEM, keyPEM)
		if err != nil {
			return tls.Certificate{},
				fmt.Errorf("certificate %s and its key %s: %w; delete both to create new ones", certPath, keyPath, err)
		}
		if time.Now().Before(c.Leaf.NotAfter) {
			return c, nil
		}
	}
	if certPEM, keyPEM, err = newCertificate(time.Now()); err != nil {
		return tls.Certificate{}, fmt.Errorf("create certificate: %w", err)
	}
	if err := writeCertificate(certPath, certPEM, keyPath, keyPEM); err != nil {
		return tls.Certificate{}, fmt.Errorf("write certificate: %w", err)
	}
	return tls.X509KeyPair(certPEM, keyPEM)
}

// readPEM returns the contents of a file, or nil if it does not exist.
func readPEM(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read certificate: %w; delete the file to create a new one", err)
	}
	return b, nil
}

// writeCertificate writes the pair so that a crash never leaves a certificate with another key:
// it removes the old certificate first and writes the new one last.
func writeCertificate(certPath string, certPEM []byte, keyPath string, keyPEM []byte) error {
	if err := os.Remove(certPath); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := writeAtomic(keyPath, keyPEM, 0o600); err != nil {
		return err
	}
	return writeAtomic(certPath, certPEM, 0o644)
}

// writeAtomic writes a file completely or not at all.
func writeAtomic(path string, content []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
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
		// OpenSSL finds an issuer by name alone. The serial number lets a client trust the
		// certificates of several emulators.
		Subject: pkix.Name{CommonName: "localhost", Organization: []string{"Byline emulator"},
			SerialNumber: serial.Text(16)},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(certificateLife),
		DNSNames:              []string{"localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true, // some clients only trust an authority
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
