package config

import (
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/kelseyhightower/envconfig"
)

// variable is one field of Config as its tags describe it.
type variable struct {
	name, def, unit, meaning string

	secret string // "url", "file", "all", or empty: may be shown
	field  reflect.StructField
	index  []int // of the field, from Config down
}

// variables walks Config; the order is that of its fields.
func variables() []variable {
	return appendVariables(nil, reflect.TypeFor[Config](), nil)
}

func appendVariables(list []variable, group reflect.Type, above []int) []variable {
	for i := range group.NumField() {
		field := group.Field(i)
		index := append(append([]int(nil), above...), i)
		if field.Type.Kind() == reflect.Struct {
			list = appendVariables(list, field.Type, index)
			continue
		}
		list = append(list, variable{
			name:    field.Tag.Get("envconfig"),
			def:     field.Tag.Get("default"),
			unit:    field.Tag.Get("unit"),
			meaning: field.Tag.Get("desc"),
			secret:  field.Tag.Get("secret"),
			field:   field,
			index:   index,
		})
	}
	return list
}

// text is what the variable holds: its value, however empty, or else its default.
func (v variable) text() string {
	if value, set := os.LookupEnv(v.name); set {
		return value
	}
	return v.def
}

// read sets the variable's field of cfg. envconfig stops at its first fault, so that each field is handed to it alone,
// and without a prefix: with one it would also take the name without DQ_, such as a NATS_URL meant for another program.
func (v variable) read(cfg *Config) error {
	if v.field.Type.Kind() == reflect.Int {
		// envconfig guesses the base: 010 would be 8.
		if _, err := strconv.Atoi(v.text()); err != nil {
			return fmt.Errorf("read %s: %w", v.name, err)
		}
	}
	alone := reflect.New(reflect.StructOf([]reflect.StructField{v.field}))
	if err := envconfig.Process("", alone.Interface()); err != nil {
		return fmt.Errorf("read %s: %w", v.name, err)
	}
	reflect.ValueOf(cfg).Elem().FieldByIndex(v.index).Set(alone.Elem().Field(0))
	return nil
}

// shown is the variable's text, fit for an error or a log.
func (v variable) shown() string {
	text := v.text()
	switch {
	case text == "":
		return `""`
	case v.secret == "all", v.secret == "file" && !isPath(text):
		return mask
	case v.secret == "url":
		return strconv.Quote(Redact(text))
	}
	return strconv.Quote(text)
}

// isPath tells a path from the seed or the key itself, set by mistake where its file is wanted.
func isPath(text string) bool {
	const longName = 40
	if strings.ContainsAny(text, "\r\n") || strings.Contains(text, "-----") {
		return false
	}
	return len(text) < longName || strings.ContainsAny(text, `/\.`)
}

// Usage is a table of all variables for the help text.
func Usage() string {
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	writeRow(table, "VARIABLE", "DEFAULT", "TYPE", "MEANING")
	for _, v := range variables() {
		writeRow(table, v.name, v.def, v.unit, v.meaning)
	}
	if err := table.Flush(); err != nil {
		return err.Error() // cannot be: a strings.Builder takes everything
	}
	return out.String()
}

func writeRow(table *tabwriter.Writer, cells ...string) {
	fmt.Fprintln(table, strings.Join(cells, "\t")) //nolint:errcheck // Flush reports it
}
