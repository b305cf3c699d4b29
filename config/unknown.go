package config

import (
	"fmt"
	"slices"
	"strings"
)

// unknownVariables finds what starts with DQ_ and is none of ours: most likely a typo that would change nothing, silently.
func unknownVariables(environ []string, known []variable) []error {
	names := make([]string, len(known))
	for i, v := range known {
		names[i] = v.name
	}
	var unknown []error
	for _, entry := range slices.Sorted(slices.Values(environ)) {
		name, value, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "DQ_") && !slices.Contains(names, name) {
			unknown = append(unknown, fmt.Errorf("%s: unknown variable%s", name, hint(name, value, names)))
		}
	}
	return unknown
}

func hint(name, value string, names []string) string {
	if isServiceLink(name, value) {
		return "; it looks like one that Kubernetes sets for a Service: enableServiceLinks: false in the pod's spec keeps them out"
	}
	if meant := nearest(strings.ToUpper(name), names); meant != "" {
		return "; did you mean " + meant + "?"
	}
	return ""
}

// isServiceLink knows what Kubernetes injects for a Service of the namespace: DQ_NATS_SERVICE_HOST, DQ_NATS_PORT, ….
func isServiceLink(name, value string) bool {
	return strings.HasSuffix(name, "_SERVICE_HOST") || strings.Contains(name, "_SERVICE_PORT") ||
		strings.HasSuffix(name, "_PORT") && strings.Contains(value, "://") ||
		strings.Contains(name, "_PORT_") && (strings.Contains(name, "_TCP") || strings.Contains(name, "_UDP"))
}

// nearest is the name with the fewest edits, if those are few for its length; else empty.
func nearest(name string, names []string) string {
	best, fewest := "", len(name)/4+1
	for _, candidate := range names {
		if n := edits(name, candidate); n < fewest {
			best, fewest = candidate, n
		}
	}
	return best
}

// edits counts the letters to add, drop, change or swap with their neighbour to make b of a.
func edits(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
