package bridge

import (
	"fmt"
	"os"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// files gives the options that read files. nats.go reads them anew for each connection, so they can be replaced while
// the bridge runs; a file that holds something else is an error at once.
func (o *LinkOptions) files() ([]nats.Option, error) {
	var options []nats.Option
	if o.Creds != "" {
		if err := checkCreds(o.Creds); err != nil {
			return nil, fmt.Errorf("DQ_NATS_CREDS: %w", err)
		}
		options = append(options, nats.UserCredentials(o.Creds))
	}
	if o.NKey != "" {
		option, err := nats.NkeyOptionFromSeed(o.NKey)
		if err != nil {
			return nil, fmt.Errorf("DQ_NATS_NKEY: read seed: %w", err)
		}
		options = append(options, option)
	}
	if o.CA != "" {
		options = append(options, named("DQ_NATS_CA", nats.RootCAs(o.CA)))
	}
	if o.Cert != "" {
		options = append(options, named("DQ_NATS_CERT and DQ_NATS_KEY", nats.ClientCert(o.Cert, o.Key)))
	}
	return options, nil
}

// named says which variables an option is from where it fails.
func named(variables string, option nats.Option) nats.Option {
	return func(o *nats.Options) error {
		if err := option(o); err != nil {
			return fmt.Errorf("%s: %w", variables, err)
		}
		return nil
	}
}

// checkCreds wants a JWT and a seed in the file; nats.go would try to connect without end. A pipe can be read only once.
func checkCreds(file string) error {
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read credentials: %w", err)
	}
	if _, err = nkeys.ParseDecoratedJWT(text); err != nil {
		return fmt.Errorf("read JWT in %s: %w", file, err)
	}
	key, err := nkeys.ParseDecoratedUserNKey(text)
	if err != nil {
		return fmt.Errorf("read seed in %s: %w", file, err)
	}
	key.Wipe()
	return nil
}
