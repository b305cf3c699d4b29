package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// faults gathers what is wrong, at most one reason a variable: the first.
type faults struct {
	unparsed map[string]bool // variables whose text is no value of their type
	reasons  map[string]string
}

func (f *faults) add(name, reason string) {
	if _, found := f.reasons[name]; !found {
		f.reasons[name] = reason
	}
}

func (f *faults) number(name string, value, lowest, highest int) {
	if f.unparsed[name] || value < lowest || value > highest {
		f.add(name, "must be a whole number from "+strconv.Itoa(lowest)+" to "+strconv.Itoa(highest))
	}
}

func (f *faults) duration(name string, value, lowest, highest time.Duration) {
	if f.unparsed[name] || value < lowest || value > highest {
		f.add(name, "must be a duration from "+short(lowest)+" to "+short(highest)+", with its unit, such as 1m30s or 250ms")
	}
}

func (f *faults) boolean(name string) {
	if f.unparsed[name] {
		f.add(name, "must be true or false")
	}
}

func (f *faults) oneOf(name, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		f.add(name, "must be one of "+strings.Join(allowed, ", "))
	}
}

// check takes the error of a lexical check, which never holds the value.
func (f *faults) check(name string, err error) {
	if err != nil {
		f.add(name, err.Error())
	}
}

// join makes one error of all, in the order of the variables; the unknown ones come last and without their values,
// since a mistyped name may hold a secret.
func (f *faults) join(known []variable, unknown []error) error {
	all := make([]error, 0, len(f.reasons)+len(unknown))
	for _, v := range known {
		if reason, found := f.reasons[v.name]; found {
			all = append(all, fmt.Errorf("%s=%s: %s", v.name, v.shown(), reason))
		}
	}
	return errors.Join(append(all, unknown...)...)
}

// short prints a duration without the zeros that time.Duration adds: 1m for 1m0s.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
