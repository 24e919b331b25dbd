package rest

import (
	"net/http"
	"strconv"
	"strings"
)

// form is how records are shown.
type form string

// Forms, by their media types.
const (
	formJSON   form = "application/json"
	formLines  form = "application/x-ndjson"
	formText   form = "text/plain"
	formBytes  form = "application/octet-stream"
	formEvents form = "text/event-stream"
)

// accepted gives the form that a request prefers; false if it wants none of ours.
func accepted(r *http.Request) (form, bool) {
	ranges := strings.Split(strings.Join(r.Header.Values("Accept"), ","), ",")
	best, weight := form(""), 0.0
	asked := false
	for _, one := range ranges {
		media, params, _ := strings.Cut(one, ";")
		media = strings.ToLower(strings.TrimSpace(media))
		if media == "" {
			continue
		}
		asked = true
		if found, ok := formOf(media); ok {
			if q := quality(params); q > weight {
				best, weight = found, q
			}
		}
	}
	if !asked {
		return formJSON, true
	}
	return best, weight > 0
}

func formOf(media string) (form, bool) {
	switch media {
	case "*/*", "application/*":
		return formJSON, true
	case "text/*":
		return formText, true
	case string(formJSON), string(formLines), string(formText), string(formBytes), string(formEvents):
		return form(media), true
	default:
		return "", false
	}
}

// quality reads the q of a media range; 1 where there is none.
func quality(params string) float64 {
	for param := range strings.SplitSeq(params, ";") {
		if value, ok := strings.CutPrefix(strings.TrimSpace(param), "q="); ok {
			q, err := strconv.ParseFloat(value, 64)
			if err != nil || q < 0 || q > 1 {
				return 0
			}
			return q
		}
	}
	return 1
}
