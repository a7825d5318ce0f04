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
// what clients are told to trust, key.pem its private key. The pair is made anew
// when it has expired, and when one of the files is missing or empty.
func Certificate(dir string) (tls.Certificate, error) {
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
			return tls.Certificate{}, fmt.Errorf("certificate %s and its key %s: %w; delete them, and the next start makes new ones", certPath, keyPath, err)
		}
		if time.Now().Before(c.Leaf.NotAfter) {
			return c, nil
		}
	}
	if certPEM, keyPEM, err = newCertificate(time.Now()); err != nil {
		return tls.Certificate{}, fmt.Errorf("make certificate: %w", err)
	}
	if err := keepCertificate(certPath, certPEM, keyPath, keyPEM); err != nil {
		return tls.Certificate{}, fmt.Errorf("keep certificate: %w", err)
	}
	return tls.X509KeyPair(certPEM, keyPEM)
}

// readPEM returns what is in a file, nothing if there is none.
func readPEM(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read certificate: %w; delete the file, and the next start makes a new one", err)
	}
	return b, nil
}

// keepCertificate writes the pair so that wherever it is cut off, a certificate is
// never beside another's key: the old one goes first, the new one comes last.
func keepCertificate(certPath string, certPEM []byte, keyPath string, keyPEM []byte) error {
	if err := os.Remove(certPath); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := writeWhole(keyPath, keyPEM, 0o600); err != nil {
		return err
	}
	return writeWhole(certPath, certPEM, 0o644)
}

// writeWhole writes a file that is there whole or not at all.
func writeWhole(path string, content []byte, mode fs.FileMode) error {
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
