package config

import "strings"

// mask stands where a secret was.
const mask = "***"

// Redact makes URLs fit for logs: one, or several with commas between them, of whatever form. User info, tokens and
// queries are masked. It takes broken URLs too, for an error about them must not leak either, and in doubt it masks:
// everything up to the last @, and whatever does not look like a host, a port and a path.
func Redact(urls string) string {
	var out strings.Builder
	for urls != "" {
		end := nextURL(urls)
		out.WriteString(redactOne(urls[:end]))
		urls = urls[end:]
		if urls != "" {
			out.WriteByte(',')
			urls = strings.TrimLeft(urls[1:], " \t")
		}
	}
	return out.String()
}

// nextURL is the index of the comma before the next scheme, or the length. A comma alone ends nothing: it may be part
// of a password, or stand between the hosts of one URL.
func nextURL(urls string) int {
	for i := range len(urls) {
		if urls[i] == ',' && schemeLen(strings.TrimLeft(urls[i+1:], " \t")) > 0 {
			return i
		}
	}
	return len(urls)
}

// schemeLen is the length of the scheme with its ://, or 0.
func schemeLen(text string) int {
	scheme, _, found := strings.Cut(text, "://")
	if !found {
		return 0
	}
	switch scheme {
	case "nats", "tls", "ws", "wss", "http", "https",
		"redis", "rediss", "unix", "redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel":
		return len(scheme) + len("://")
	}
	return 0
}

func redactOne(text string) string {
	n := schemeLen(text)
	scheme, rest := text[:n], text[n:]
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		scheme += mask + "@"
		rest = rest[at+1:]
	}
	query := ""
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		rest, query = rest[:i], rest[i:i+1]+mask
	}
	if !isPlain(rest) {
		return scheme + mask + query
	}
	return scheme + rest + query
}

// isPlain is true for h1:p,h2:p/path, each part of which may be missing, and nothing else.
func isPlain(text string) bool {
	hosts, path, _ := strings.Cut(text, "/")
	if strings.ContainsFunc(path, func(r rune) bool { return r != '/' && r != '.' && notPrefixRune(r) }) {
		return false
	}
	for one := range strings.SplitSeq(hosts, ",") {
		one = strings.TrimSpace(one)
		host := one
		if i := strings.LastIndexByte(one, ':'); i > strings.LastIndexByte(one, ']') {
			host = one[:i]
			if port := one[i+1:]; !isNumber(port) || len(port) > len("65535") {
				return false
			}
		}
		if host != "" && !isHost(host) {
			return false
		}
	}
	return true
}
