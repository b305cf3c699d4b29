package testenv

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority is a CA of a test: it signs certificates for servers and clients.
type Authority struct {
	// File is the PEM file of its own certificate.
	File string
	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes a CA.
func NewAuthority(tb testing.TB) *Authority {
	tb.Helper()
	a := &Authority{t: tb, dir: tb.TempDir()}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "test CA"}, NotBefore: now().Add(-time.Hour), NotAfter: now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.key = newKey(tb)
	var der []byte
	a.cert, der = a.sign(template, template, &a.key.PublicKey)
	a.File = filepath.Join(a.dir, "ca.pem")
	writePEM(tb, a.File, "CERTIFICATE", der)
	return a
}

// Pool holds the CA alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Issued is a certificate with its key, as files and for Go.
type Issued struct {
	Cert, Key string
	Pair      tls.Certificate
}

// Issue makes a certificate for a host, a name or an address, that ends after a while (negative: has ended), good for both
// servers and clients.
func (a *Authority) Issue(host string, after time.Duration) Issued {
	a.t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: host}, NotBefore: now().Add(-2 * time.Hour), NotAfter: now().Add(after),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	key := newKey(a.t)
	_, der := a.sign(template, a.cert, &key.PublicKey)
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	dir, err := os.MkdirTemp(a.dir, "")
	if err != nil {
		a.t.Fatal(err)
	}
	issued := Issued{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	writePEM(a.t, issued.Cert, "CERTIFICATE", der)
	writePEM(a.t, issued.Key, "EC PRIVATE KEY", secret)
	issued.Pair, err = tls.LoadX509KeyPair(issued.Cert, issued.Key)
	if err != nil {
		a.t.Fatal(err)
	}
	return issued
}

func (a *Authority) sign(template, parent *x509.Certificate, key *ecdsa.PublicKey) (*x509.Certificate, []byte) {
	a.t.Helper()
	var err error
	if template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		a.t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, der
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func writePEM(tb testing.TB, file, kind string, der []byte) {
	tb.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		tb.Fatal(err)
	}
}
