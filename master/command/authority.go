package command

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"time"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte
}

// authority reads an authority, or makes one if neither its certificate nor its key is there, nor the file that says
// whom processes trust: these would not trust a new one.
func (k *keyMaker) authority(path, name, trusted string) (*authority, error) {
	cert, certErr := os.ReadFile(k.at(path + ".crt"))
	key, keyErr := os.ReadFile(k.at(path + ".key"))
	if errors.Is(certErr, fs.ErrNotExist) && errors.Is(keyErr, fs.ErrNotExist) {
		if _, err := os.Stat(k.at(trusted)); trusted != "" && err == nil {
			return nil, fmt.Errorf(
				"keys: %s.crt and %s.key are elsewhere, and processes trust what they signed (%s): bring them back",
				k.at(path), k.at(path), k.at(trusted))
		}
		var err error
		if cert, key, err = newAuthority(name, k.now); err != nil {
			return nil, err
		}
		if err := errors.Join(k.write(path+".key", key), k.write(path+".crt", cert)); err != nil {
			return nil, err
		}
	} else if err := errors.Join(certErr, keyErr); err != nil {
		return nil, fmt.Errorf(
			"keys: an authority needs its certificate and its key; bring back the one that is missing, or give "+
				"another directory: %w", err)
	}
	a, err := parseAuthority(cert, key)
	if err != nil {
		return nil, fmt.Errorf("keys: authority %s: %w", k.at(path+".crt"), err)
	}
	return a, nil
}

func newAuthority(name string, now time.Time) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("keys: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	return sign(template, template, private, private)
}

func parseAuthority(cert, key []byte) (*authority, error) {
	certBlock, _ := pem.Decode(cert)
	keyBlock, _ := pem.Decode(key)
	if certBlock == nil || keyBlock == nil {
		return nil, errors.New("certificate or key holds no PEM block")
	}
	parsed, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return nil, err
	}
	private, err := x509.ParsePKCS8PrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, err
	}
	signer, ok := private.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a %T cannot sign", private)
	}
	return &authority{cert: parsed, key: signer, pem: cert}, nil
}

// issue makes a certificate and its key, for callers and, if it has names, for ports.
func (a *authority) issue(subject string, names []string, now time.Time) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("keys: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: subject},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certificateLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	if len(names) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	return sign(template, a.cert, private, a.key)
}

// sign returns PEM texts of the certificate and of its key.
func sign(
	template, parent *x509.Certificate, private *ecdsa.PrivateKey, signer crypto.Signer,
) (cert, key []byte, err error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &private.PublicKey, signer)
	if err != nil {
		return nil, nil, fmt.Errorf("keys: %w", err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("keys: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), nil
}

// serial is a number that no other certificate has.
func serial() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return new(big.Int).SetBytes(b[:])
}
