package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// address is a URL taken apart without net/url, which takes one host only. The errors of this file never hold a value.
type address struct {
	scheme, hosts, path string
}

func splitAddress(text string) (address, error) {
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		return address{}, errors.New("must start with a scheme and ://")
	}
	authority, path := rest, ""
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority, path = rest[:end], rest[end:]
	}
	path, _, _ = strings.Cut(path, "?")
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		if _, err := url.PathUnescape(authority[:at]); err != nil {
			return address{}, errors.New("must have special characters in user and password percent-encoded")
		}
		authority = authority[at+1:]
	}
	if strings.ContainsAny(path, "#@") {
		return address{}, errors.New("must have the characters / ? # @ in user and password percent-encoded")
	}
	return address{scheme: scheme, hosts: authority, path: path}, nil
}

// checkNATSURL allows what nats.go takes: addresses with commas between them, each with or without a scheme.
func checkNATSURL(text string) error {
	webSockets, sockets := false, false
	for one := range strings.SplitSeq(text, ",") {
		one = strings.TrimSpace(one)
		if !strings.Contains(one, "://") {
			one = "nats://" + one
		}
		addr, err := splitAddress(one)
		if err != nil {
			return err
		}
		switch addr.scheme {
		case "nats", "tls":
			sockets = true
		case "ws", "wss":
			webSockets = true
		default:
			return errors.New("must be nats://, tls://, ws:// or wss:// addresses with commas between them")
		}
		if err = checkHostPort(addr.hosts); err != nil {
			return err
		}
	}
	if webSockets && sockets {
		return errors.New("must not mix ws:// or wss:// with nats:// or tls://")
	}
	return nil
}

func checkRedisURL(text string) error {
	addr, err := splitAddress(text)
	if err != nil {
		return err
	}
	path := strings.TrimPrefix(addr.path, "/")
	switch addr.scheme {
	case "redis", "rediss":
		if strings.Contains(addr.hosts, ",") {
			return errors.New("must have one host; several are redis+cluster://h1:p,h2:p or redis+sentinel://h1:p,h2:p/master")
		}
		if path != "" && !isNumber(path) {
			return errors.New("must end in /<number of the database> or nothing")
		}
		return checkHostPort(addr.hosts)
	case "unix":
		if addr.hosts != "" || path == "" {
			return errors.New("must be unix:///path/of/the/socket")
		}
		return nil
	case "redis+cluster", "rediss+cluster":
		if path != "" {
			return errors.New("must have no path: a cluster has one database")
		}
		return checkHosts(addr.hosts)
	case "redis+sentinel", "rediss+sentinel":
		if path == "" || strings.Contains(path, "/") {
			return errors.New("must end in /<name of the master>")
		}
		return checkHosts(addr.hosts)
	}
	return errors.New("must start with redis://, rediss://, unix://, redis+cluster://, redis+sentinel:// or, with TLS, rediss+cluster://, rediss+sentinel://")
}

func checkHosts(list string) error {
	for one := range strings.SplitSeq(list, ",") {
		if _, _, err := net.SplitHostPort(one); err != nil {
			return errors.New("must have a port for each host: h1:p,h2:p")
		}
		if err := checkHostPort(one); err != nil {
			return err
		}
	}
	return nil
}

// checkHostPort wants a host; the port may be left out for the protocol's own.
func checkHostPort(text string) error {
	if isHost(text) {
		return nil
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil || !isHost(host) && !isHost("["+host+"]") {
		return errors.New("must have a host, or host:port, in each address")
	}
	return checkPort(port, 1)
}

// checkListenAddr allows an empty host (every interface) and port 0 (any free one).
func checkListenAddr(text string) error {
	if text == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil || host != "" && !isHost(host) && !isHost("["+host+"]") {
		return errors.New("must be host:port or :port, or empty for off")
	}
	return checkPort(port, 0)
}

func checkPort(port string, lowest uint64) error {
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n < lowest {
		return fmt.Errorf("must have a port from %d to 65535", lowest)
	}
	return nil
}

// isHost knows a host name or IPv4 address, or an IPv6 address in brackets.
func isHost(text string) bool {
	if inner, found := strings.CutPrefix(text, "["); found {
		inner, found = strings.CutSuffix(inner, "]")
		inner, _, _ = strings.Cut(inner, "%") // the zone
		return found && net.ParseIP(inner) != nil
	}
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return !isLetterOrDigit(r) && r != '-' && r != '_' && r != '.' })
}

func isNumber(text string) bool {
	return text != "" && !slices.ContainsFunc([]byte(text), func(b byte) bool { return b < '0' || b > '9' })
}
