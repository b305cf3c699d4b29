package report

import (
	"bytes"
	_ "embed" // the pictures' templates
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"text/template"

	"github.com/dqbridge/dqbridge/bench/load"
)

//go:embed throughput.svg.tmpl
var throughputTemplate string

//go:embed lateness.svg.tmpl
var latenessTemplate string

// styleOf is shared by the pictures: GitHub shows them as images, where only a media query of their own knows light from dark.
//
//go:embed style.css
var styleOf string

// Pictures writes throughput.svg and lateness.svg to a folder, each where there are figures for it.
func Pictures(dir string, figures []load.Figure) error {
	groups := Groups(figures)
	return errors.Join(
		picture(filepath.Join(dir, "throughput.svg"), throughputTemplate, throughputOf(groups)),
		picture(filepath.Join(dir, "lateness.svg"), latenessTemplate, latenessOf(groups)))
}

// picture fills a template, unless data is nil.
func picture(file, text string, data any) error {
	if data == nil {
		return nil
	}
	t, err := template.New(filepath.Base(file)).Funcs(template.FuncMap{"style": func() string { return styleOf }}).Parse(text)
	if err != nil {
		return fmt.Errorf("read template of %s: %w", file, err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return fmt.Errorf("draw %s: %w", file, err)
	}
	return os.WriteFile(file, b.Bytes(), 0o644) //nolint:gosec // a picture is for everybody
}

// class is a peer's colour in style.css; a peer that is not known there has the text's.
func class(peer string) string {
	if known := []string{"dqbridge", "JetStream", "asynq", "beanstalkd"}; !slices.Contains(known, peer) {
		return "other"
	}
	return peer
}
