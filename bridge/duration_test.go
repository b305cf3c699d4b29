package bridge

import (
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestSecondsToMillis(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"0": 0, "-0": 0, "0e9": 0, "0.000e-9": 0, "1": 1000, "1.1": 1100, "1.0001": 1001, "0.0001": 1, "1e-1": 100,
		"1E+1": 10_000, "12.345e1": 123_450, "1.9999999999999999": 2000, "-5": 0, "-1e400": 0,
		"1e-999999999999999999999": 1, "1e999999999999999999999": math.MaxInt64, "0e999999999999999999999": 0,
		"9223372036854775": 9223372036854775000, "92233720368547758": math.MaxInt64,
		"18446744073709551.616":                   math.MaxInt64,
		"0." + strings.Repeat("0", 499) + "1e500": 1000,
	} {
		if got, ok := secondsToMillis([]byte(text)); !ok || got != want {
			t.Errorf("%s: got %d, %v instead of %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "-", "+5", "007", "-01", "5.", ".5", "1e", "1e+", "0x10", "NaN", "5 ", "1.5.2", "1e5.5", "５"} {
		if got, ok := secondsToMillis([]byte(text)); ok {
			t.Errorf("%q: got %d", text, got)
		}
	}
}

func TestSecondsToMillisTakesLongTexts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0", 500_000)
	for _, text := range []string{"1" + long, "0." + long + "1", "1" + long + "e-500000", "1e999999999", "1e-999999999"} {
		if _, ok := secondsToMillis([]byte(text)); !ok {
			t.Errorf("%s is no number", excerpt(text))
		}
	}
}

// FuzzSeconds holds the decimal reading against exact fractions.
func FuzzSeconds(f *testing.F) {
	for _, seed := range []string{"0", "-1.5", "1e-3", "123.456e2", "9e18", "0.0009999", "1e400", "007"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := secondsToMillis([]byte(text))
		value := jsontext.Value(text)
		isNumber := value.IsValid() && value.Kind() == jsontext.KindNumber && strings.Trim(text, " \t\r\n") == text
		if ok != isNumber {
			t.Fatalf("%q: number is %v", text, ok)
		}
		n, _ := parseNumber([]byte(text))
		if !ok || n.exponent > 1000 || n.exponent < -1000 {
			return
		}
		exact, _ := new(big.Rat).SetString(text)
		if want := ceilMillis(exact); want != got {
			t.Fatalf("%q: got %d instead of %d", text, got, want)
		}
	})
}

// ceilMillis is the definition: seconds times 1000, rounded up, within 0 and math.MaxInt64.
func ceilMillis(seconds *big.Rat) int64 {
	if seconds.Sign() <= 0 {
		return 0
	}
	ms := new(big.Rat).Mul(seconds, big.NewRat(1000, 1))
	whole, rest := new(big.Int).QuoRem(ms.Num(), ms.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		whole.Add(whole, big.NewInt(1))
	}
	// The reader gives up a digit before what int64 can hold.
	if whole.Cmp(big.NewInt(math.MaxInt64/10*10)) > 0 {
		return math.MaxInt64
	}
	return whole.Int64()
}
