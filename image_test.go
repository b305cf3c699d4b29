package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestImageHasNoRights: the image's user is none of the system's, it has no shell, and the example runs it on a root file
// system that nobody can write, without capabilities. What the bridge opens it opens for reading.
func TestImageHasNoRights(t *testing.T) {
	t.Parallel()
	dockerfile, compose := read(t, "Dockerfile"), read(t, "docker-compose.yml")
	last := dockerfile[strings.LastIndex(dockerfile, "\nFROM "):]
	if !strings.Contains(last, "distroless/static") || !regexp.MustCompile(`(?m)^USER [1-9]\d+:[1-9]\d+$`).MatchString(last) {
		t.Errorf("the last stage of the Dockerfile is\n%s", last)
	}
	_, service, _ := strings.Cut(compose, "\n  dqbridge:\n")
	service, _, _ = strings.Cut(service, "\nvolumes:")
	for _, line := range []string{"read_only: true", "cap_drop: [ALL]", `security_opt: ["no-new-privileges:true"]`} {
		if !strings.Contains(service, "\n    "+line+"\n") {
			t.Errorf("docker-compose.yml runs the bridge without %s", line)
		}
	}
	if strings.Contains(service, "volumes:") || strings.Contains(service, "privileged:") || strings.Contains(service, "user:") {
		t.Errorf("docker-compose.yml gives the bridge more than it needs:\n%s", service)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
