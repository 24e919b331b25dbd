package s3bucket_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seedqueue/sq/libs/objstore/s3bucket"
)

func TestConfigValidate(t *testing.T) {
	good := s3bucket.Config{Bucket: "seedqueue"}
	for name, c := range map[string]struct {
		change func(*s3bucket.Config)
		want   string
	}{
		"aws":              {func(*s3bucket.Config) {}, ""},
		"http":             {func(c *s3bucket.Config) { c.Endpoint = "http://127.0.0.1:9000" }, ""},
		"https and slash":  {func(c *s3bucket.Config) { c.Endpoint = "https://s3.example.org/" }, ""},
		"no bucket":        {func(c *s3bucket.Config) { c.Bucket = "" }, "3 to 63"},
		"two letters":      {func(c *s3bucket.Config) { c.Bucket = "sq" }, "3 to 63"},
		"bucket with path": {func(c *s3bucket.Config) { c.Bucket = "a/b" }, "3 to 63"},
		"file":             {func(c *s3bucket.Config) { c.Endpoint = "file:///etc" }, "http://host:port"},
		"no scheme":        {func(c *s3bucket.Config) { c.Endpoint = "localhost:9000" }, "http://host:port"},
		"path":             {func(c *s3bucket.Config) { c.Endpoint = "http://h/p" }, "no path"},
		"credentials":      {func(c *s3bucket.Config) { c.Endpoint = "http://u:pass@h" }, "no path"},
		"half a key":       {func(c *s3bucket.Config) { c.AccessKey = "a" }, "together"},
	} {
		cfg := good
		c.change(&cfg)
		err := cfg.Validate()
		if (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

func TestConfigHidesTheSecret(t *testing.T) {
	cfg := s3bucket.Config{Bucket: "b", AccessKey: "id", SecretKey: "hush"}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(format, cfg); strings.Contains(text, "hush") {
			t.Errorf("%s shows the secret: %s", format, text)
		}
	}
}
