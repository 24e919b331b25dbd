package rest

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/seedqueue/sq/libs/fault"
	datav1 "github.com/seedqueue/sq/proto/gen/sq/data/v1"
)

// query reads the parameters of a URL strictly: an unknown or doubled one is a mistake that must not pass in silence.
func query(r *http.Request, known ...string) (url.Values, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fault.Errorf(fault.Invalid, "read query: %w", err)
	}
	for name, all := range values {
		if !slices.Contains(known, name) {
			return nil, fault.Errorf(fault.Invalid, "%.64q is not a parameter; there are %v", name, known)
		}
		if len(all) > 1 {
			return nil, fault.Errorf(fault.Invalid, "%s: it is given %d times", name, len(all))
		}
	}
	return values, nil
}

// number reads an int32; nil if it is not given.
func number(values url.Values, name string) (*int32, error) {
	text := values.Get(name)
	if !values.Has(name) {
		return nil, nil //nolint:nilnil // not given is no error.
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return nil, fault.Errorf(fault.Invalid, "%s: %.64q is not a number", name, text)
	}
	return proto.Int32(int32(n)), nil
}

// fetchRequest reads GET /records. Its wait is the client's; each call gets a part of it.
func fetchRequest(r *http.Request, most time.Duration) (req *datav1.FetchRequest, wait time.Duration, err error) {
	values, err := query(r, "cursor", "from", "partition", "maxRecords", "maxBytes", "waitTime")
	if err != nil {
		return nil, 0, err
	}
	req = &datav1.FetchRequest{
		Namespace: r.PathValue("namespace"), Topic: r.PathValue("topic"), Cursor: values.Get("cursor"), From: values.Get("from"),
	}
	if req.Partition, err = number(values, "partition"); err != nil {
		return nil, 0, err
	}
	for name, field := range map[string]*int32{"maxRecords": &req.MaxRecords, "maxBytes": &req.MaxBytes} {
		n, err := number(values, name)
		if err != nil {
			return nil, 0, err
		}
		if n != nil {
			*field = *n
		}
	}
	if text := values.Get("waitTime"); text != "" {
		if wait, err = time.ParseDuration(text); err != nil || wait < 0 || wait > most {
			return nil, 0, fault.Errorf(fault.Invalid, "waitTime: %.64q is not a time from 0s to %s", text, most)
		}
	}
	return req, wait, nil
}
