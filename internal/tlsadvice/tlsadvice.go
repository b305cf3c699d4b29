// Package tlsadvice says what an operator has to change where a connection with TLS fails.
package tlsadvice

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
)

// For gives the advice for an error, empty where it is none of TLS. prefix begins the names of the variables that
// configure the connection, as in DQ_NATS_.
func For(err error, prefix string) string {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var plain tls.RecordHeaderError
	switch {
	case errors.As(err, &unknown):
		return "the server's certificate is signed by a CA that is not known here, " + prefix + "CA must name a file with it"
	case errors.As(err, &name):
		return "the server's certificate is for another host, " + prefix + "URL must have a name that it names"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the server's certificate has expired or is not valid yet, the server needs another one (or a clock is wrong)"
	case errors.As(err, &plain):
		return "the server does not speak TLS on this port, " + prefix + "URL or the files beside it ask for it"
	}
	return refusal(err, prefix)
}

// refusal knows what the server says of the client's certificate; crypto/tls gives it as a text alone.
func refusal(err error, prefix string) string {
	const remote = "remote error: tls: "
	if err == nil || !strings.Contains(err.Error(), remote) {
		return ""
	}
	files := prefix + "CERT and " + prefix + "KEY"
	_, alert, _ := strings.Cut(err.Error(), remote)
	switch {
	case strings.HasPrefix(alert, "certificate required"):
		return "the server wants a client certificate, " + files + " must name one that it takes"
	case strings.HasPrefix(alert, "expired certificate"):
		return "the client certificate has expired, " + files + " must name another one"
	case strings.HasPrefix(alert, "bad certificate"), strings.HasPrefix(alert, "unknown certificate"):
		return "the server does not take the client certificate, " + files + " must name one that is signed by its CA"
	}
	return ""
}
