package delay

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/rs/zerolog"
)

// RedisOptions say where Redis is.
type RedisOptions struct {
	// URL is redis://, rediss://, unix://, redis+cluster://h1:p,h2:p or redis+sentinel://h1:p,h2:p/master, the last two also
	// as rediss+…; with sentinel_username and sentinel_password as query parameters.
	URL string
	// CA, Cert and Key are PEM files; empty: the system's CAs, no client certificate.
	CA, Cert, Key string
	Log           zerolog.Logger
}

const (
	dialTimeout = time.Second
	// callTimeout bounds each read and write on a connection, and so a call.
	callTimeout = 2 * time.Second
	// protocol is RESP2: what RESP3 has more is not used, and costs the client a look for notifications before each reply.
	protocol = 2
	// poolSize is enough for the writers, the tickers and the dispatcher, none of which holds a connection while idle.
	poolSize = 24
)

// Dial makes a client for the Redis at o.URL. It does not connect yet.
// No call is ever retried by the client: after a lost answer only the caller knows whether to repeat it.
func Dial(o RedisOptions) (redis.UniversalClient, error) {
	redis.SetLogger(redisLogger{o.Log})
	u, err := url.Parse(o.URL)
	if err != nil {
		// The text of url's error repeats the URL, and with it the password.
		return nil, errors.New("parse redis URL: malformed")
	}
	security, err := tlsConfig(o, u)
	if err != nil {
		return nil, err
	}
	scheme, many, _ := strings.Cut(u.Scheme, "+")
	if many == "" {
		return dialOne(o.URL, security)
	}
	if scheme != "redis" && scheme != "rediss" {
		return nil, fmt.Errorf("parse redis URL: scheme %q is not known", u.Scheme)
	}
	password, _ := u.User.Password()
	universal := &redis.UniversalOptions{
		Addrs: strings.Split(u.Host, ","), Username: u.User.Username(), Password: password, TLSConfig: security,
		MaxRetries: -1, DialTimeout: dialTimeout, ReadTimeout: callTimeout, WriteTimeout: callTimeout,
		ContextTimeoutEnabled: true, PoolSize: poolSize, DialerRetries: 1, DisableIdentity: true, Protocol: protocol,
		MaintNotificationsConfig: noNotifications(), Dialer: dialer(security),
	}
	switch many {
	case "cluster":
		// Scripts go to their nodes by themselves (cluster.go); what the client redirects is only read, or can be repeated.
		options := universal.Cluster()
		return redis.NewClusterClient(options), nil
	case "sentinel":
		universal.MasterName = strings.Trim(u.Path, "/")
		universal.SentinelUsername, universal.SentinelPassword = u.Query().Get("sentinel_username"), u.Query().Get("sentinel_password")
		return redis.NewFailoverClient(universal.Failover()), nil
	}
	return nil, fmt.Errorf("parse redis URL: scheme %q is not known", u.Scheme)
}

// noNotifications keeps the client from asking for a service that Redis itself does not have: an ACL would have to allow it.
func noNotifications() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

func dialOne(address string, security *tls.Config) (redis.UniversalClient, error) {
	options, err := redis.ParseURL(address)
	if err != nil {
		return nil, errors.New("parse redis URL: malformed")
	}
	options.MaxRetries = -1
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout = dialTimeout, callTimeout, callTimeout
	options.ContextTimeoutEnabled = true
	options.PoolSize, options.DialerRetries = poolSize, 1
	options.DisableIdentity, options.Protocol = true, protocol
	options.MaintNotificationsConfig = noNotifications()
	options.TLSConfig, options.Dialer = security, dialer(security)
	return redis.NewClient(options), nil
}

// tlsConfig gives nil where neither the URL nor a file asks for TLS.
func tlsConfig(o RedisOptions, u *url.URL) (*tls.Config, error) {
	if !strings.HasPrefix(u.Scheme, "rediss") && o.CA == "" && o.Cert == "" {
		return nil, nil //nolint:nilnil // no TLS is not an error
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CA != "" {
		pem, err := os.ReadFile(o.CA)
		if err != nil {
			return nil, fmt.Errorf("DQ_REDIS_CA: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("DQ_REDIS_CA: no certificate in %s", o.CA)
		}
	}
	if o.Cert != "" {
		pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
		if err != nil {
			return nil, fmt.Errorf("DQ_REDIS_CERT and DQ_REDIS_KEY: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// redisLogger hands the client's own messages to the project's log.
type redisLogger struct{ log zerolog.Logger }

func (l redisLogger) Printf(_ context.Context, format string, args ...any) {
	l.log.Debug().Str("detail", fmt.Sprintf(format, args...)).Msg("redis client reports")
}

// definite are the beginnings of error replies after which a script has written nothing.
var definite = []string{
	"OOM ", "LOADING ", "READONLY ", "MISCONF ", "BUSY ", "CLUSTERDOWN ", "MASTERDOWN ", "TRYAGAIN ", "NOAUTH ",
	"NOPERM ", "WRONGPASS ", "MOVED ", "ASK ", "NOREPLICAS ", "NOSCRIPT ",
}

// unavailable wraps an error of a call and says whether the call may have been carried out all the same.
func unavailable(err error) error {
	if err == nil {
		return nil
	}
	var reply redis.Error
	if errors.As(err, &reply) {
		for _, beginning := range definite {
			if strings.HasPrefix(reply.Error(), beginning) && !deniedInside(reply.Error()) {
				return &UnavailableError{Cause: advised(err)}
			}
		}
		return &UnavailableError{Maybe: true, Odd: true, Cause: advised(err)}
	}
	var network *net.OpError
	notSent := errors.Is(err, redis.ErrClosed) || errors.Is(err, redis.ErrPoolTimeout) ||
		errors.As(err, &network) && network.Op == "dial"
	return &UnavailableError{Maybe: !notSent, Cause: advised(err)}
}
