package config

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// Bytes is a size: "512", "64KiB", "8MiB", "1GiB", "2TiB".
type Bytes int64

// units from large to small, for printing.
//
//nolint:gochecknoglobals // a constant table: Go has no constant arrays.
var units = []struct {
	name string
	size Bytes
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// UnmarshalText reads a whole number and a unit; without a unit it counts bytes.
func (b *Bytes) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	number := strings.TrimRight(s, "BKMGTi")
	factor := Bytes(1)
	if unit := s[len(number):]; unit != "" && unit != "B" {
		factor = 0
		for _, u := range units {
			if u.name == unit {
				factor = u.size
			}
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
	if err != nil || factor == 0 || n < 0 {
		return errors.New("not a size such as 512, 64KiB, 8MiB, 1GiB")
	}
	if high, low := bits.Mul64(uint64(n), uint64(factor)); high > 0 || low > math.MaxInt64 {
		return errors.New("a size above 8 EiB")
	}
	*b = Bytes(n) * factor
	return nil
}

// String gives the largest unit that divides it.
func (b Bytes) String() string {
	for _, u := range units {
		if b != 0 && b%u.size == 0 {
			return strconv.FormatInt(int64(b/u.size), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// MarshalText gives String.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// Secret is a string that does not show itself.
type Secret string

const redacted = "[redacted]"

// Reveal gives the secret.
func (s Secret) Reveal() string { return string(s) }

// String hides it; an empty one is empty.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// Format hides it from every verb of fmt.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, s.String()) } // as fmt itself, which has nobody to tell

// LogValue hides it from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText hides it from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
