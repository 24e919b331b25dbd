package value

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seedqueue/sq/libs/config"
)

// Bytes is a size: 512, 64KiB, 8MiB.
type Bytes struct{ To *int64 }

// String implements pflag.Value.
func (b Bytes) String() string {
	if b.To == nil || *b.To == 0 {
		return ""
	}
	return config.Bytes(*b.To).String()
}

// Type implements pflag.Value.
func (b Bytes) Type() string { return "size" }

// Set implements pflag.Value.
func (b Bytes) Set(value string) error {
	var size config.Bytes
	if err := size.UnmarshalText([]byte(value)); err != nil {
		return err
	}
	*b.To = int64(size)
	return nil
}

// Span is a duration that may have days: 90s, 12h, 7d.
type Span struct{ To *time.Duration }

// String implements pflag.Value.
func (d Span) String() string {
	if d.To == nil || *d.To == 0 {
		return ""
	}
	return d.To.String()
}

// Type implements pflag.Value.
func (d Span) Type() string { return "duration" }

// Set implements pflag.Value.
func (d Span) Set(value string) error {
	span, err := parseSpan(value)
	*d.To = span
	return err
}

func parseSpan(value string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(value, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 32)
		if err != nil || n > 36500 {
			return 0, errors.New("not a duration such as 90s, 12h, 7d")
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	span, err := time.ParseDuration(value)
	if err != nil || span < 0 {
		return 0, errors.New("not a duration such as 90s, 12h, 7d")
	}
	return span, nil
}

// OneOf is a choice of few legal values.
type OneOf struct {
	To    *string
	Legal []string
}

// String implements pflag.Value.
func (o OneOf) String() string {
	if o.To == nil {
		return ""
	}
	return *o.To
}

// Type implements pflag.Value.
func (o OneOf) Type() string { return "string" }

// Set implements pflag.Value.
func (o OneOf) Set(value string) error {
	for _, legal := range o.Legal {
		if value == legal {
			*o.To = value
			return nil
		}
	}
	return fmt.Errorf("legal are %v", o.Legal)
}

// ParseTime reads a time of day of today, in the local zone, or a date and time.
func ParseTime(value string, now time.Time) (time.Time, error) {
	for _, layout := range []string{"15:04", "15:04:05"} {
		if t, err := time.ParseInLocation(layout, value, now.Location()); err == nil {
			return time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, now.Location()), nil
		}
	}
	if t, err := time.Parse(time.RFC3339Nano, value); err == nil {
		return t, nil
	}
	return time.Time{}, fmt.Errorf("%q is no time: 09:00, 09:00:30 (today) or 2006-01-02T15:04:05Z", value)
}
