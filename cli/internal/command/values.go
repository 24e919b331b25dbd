package command

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seedqueue/sq/libs/config"
)

// bytesFlag is a size: 512, 64KiB, 8MiB.
type bytesFlag struct{ to *int64 }

func (b bytesFlag) String() string {
	if b.to == nil || *b.to == 0 {
		return ""
	}
	return config.Bytes(*b.to).String()
}

func (b bytesFlag) Type() string { return "size" }

func (b bytesFlag) Set(value string) error {
	var size config.Bytes
	if err := size.UnmarshalText([]byte(value)); err != nil {
		return err
	}
	*b.to = int64(size)
	return nil
}

// spanFlag is a duration that may have days: 90s, 12h, 7d.
type spanFlag struct{ to *time.Duration }

func (d spanFlag) String() string {
	if d.to == nil || *d.to == 0 {
		return ""
	}
	return d.to.String()
}

func (d spanFlag) Type() string { return "duration" }

func (d spanFlag) Set(value string) error {
	span, err := parseSpan(value)
	*d.to = span
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

// parseTime reads a time of day of today, in the local zone, or a date and time.
func parseTime(value string, now time.Time) (time.Time, error) {
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
