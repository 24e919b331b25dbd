package s3bucket

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// Limits of uploads.
const (
	// PartBytes is the size of a part; larger objects go up in parts.
	PartBytes = 16 << 20
	// Concurrency is how many parts of an object are under way.
	Concurrency = 2
	// partsMax is S3's limit of parts an object.
	partsMax = 10_000
	// listMax is S3's limit of keys an answer.
	listMax = 1_000
)

// Config of a Bucket.
type Config struct {
	// Endpoint is the store's URL, http or https, without a path; "" = AWS.
	Endpoint string
	// Region; "" = us-east-1, which other stores ignore.
	Region string
	// Bucket is the bucket's name.
	Bucket string
	// Prefix goes before every key; "" = none. A slash is put between.
	Prefix string
	// AccessKey and SecretKey; both empty = as the AWS SDK finds them (environment, files, roles).
	AccessKey string
	SecretKey string
	// PathStyle puts the bucket's name into the path, which every store but AWS prefers, instead of into the host name.
	PathStyle bool
}

// String shows the configuration without the secret.
func (c Config) String() string {
	return fmt.Sprintf("bucket %q endpoint %q region %q prefix %q", c.Bucket, c.Endpoint, c.Region, c.Prefix)
}

// GoString hides the secret from %#v.
func (c Config) GoString() string { return c.String() }

// bucketName is S3's rule, as far as every store shares it.
//
//nolint:gochecknoglobals // a constant: Go has no constant expressions of this kind.
var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// Validate names what is wrong.
func (c Config) Validate() error {
	if !bucketName.MatchString(c.Bucket) {
		return fmt.Errorf("s3 bucket %q: a name of 3 to 63 of a-z 0-9 . - is needed", c.Bucket)
	}
	if (c.AccessKey == "") != (c.SecretKey == "") {
		return errors.New("s3 credentials: access key and secret key are set together or not at all")
	}
	if c.Endpoint == "" {
		return nil
	}
	parsed, err := url.Parse(c.Endpoint)
	if err != nil {
		return fmt.Errorf("s3 endpoint: %w", err)
	}
	if (parsed.Scheme != "http" && parsed.Scheme != "https") || parsed.Host == "" {
		return fmt.Errorf("s3 endpoint %q: a URL as http://host:port or https://host is needed", c.Endpoint)
	}
	if strings.Trim(parsed.Path, "/") != "" || parsed.RawQuery != "" || parsed.User != nil {
		return errors.New("s3 endpoint: no path, query or credentials belong into it")
	}
	return nil
}
