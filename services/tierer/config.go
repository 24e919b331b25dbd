package tierer

import (
	"github.com/seedqueue/sq/libs/config"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/node"
	"github.com/seedqueue/sq/libs/objstore/s3bucket"
)

// Config is what a user sets.
type Config struct {
	NodeID         string       `koanf:"node-id" usage:"name of this tierer, unique among them and kept over restarts; empty = the advertised data address"`
	CapnpHost      string       `koanf:"capnp-host" usage:"address to serve cold reads on, host:port"`
	HTTPHost       string       `koanf:"http-host" usage:"address to serve /livez, /readyz and /version on, host:port"`
	AdvertiseCapnp string       `koanf:"advertise-capnp" usage:"address that gateways reach the data port by; empty = the listen address"`
	AdvertiseHTTP  string       `koanf:"advertise-http" usage:"address that others reach the HTTP port by; empty = the listen address"`
	SpoolDir       string       `koanf:"spool-dir" usage:"directory for segments on their way to the bucket, made if missing; empty = in memory"`
	CacheMemory    config.Bytes `koanf:"cache-memory" usage:"memory for blocks that cold reads have read, 16MiB and up"`
	S3
	node.Config `usage-lease-ttl:"how long after its last renewal the tierer counts as gone, 2s to 60s"`
}

// S3 is where the bucket is. It is used by the process's main: a program hands a Bucket in.
type S3 struct {
	Bucket       string        `koanf:"s3-bucket" usage:"name of the bucket"`
	Endpoint     string        `koanf:"s3-endpoint" usage:"URL of the S3 server, http://host:port or https://host; empty = AWS"`
	Region       string        `koanf:"s3-region" usage:"region of the bucket"`
	Prefix       string        `koanf:"s3-prefix" usage:"what all keys begin with; empty = nothing"`
	AccessKey    string        `koanf:"s3-access-key" usage:"access key; empty = as the AWS SDK finds it"`
	SecretKey    config.Secret `koanf:"s3-secret-key" usage:"secret key; empty = as the AWS SDK finds it"`
	CreateBucket bool          `koanf:"s3-create-bucket" usage:"make the bucket if it is missing"`
}

// Defaults of a Config.
func Defaults() Config {
	return Config{
		CapnpHost: "localhost:6364", HTTPHost: "localhost:6362", CacheMemory: 256 << 20,
		S3: S3{Bucket: "seedqueue", Region: "us-east-1"}, Config: node.Defaults("localhost:6369"),
	}
}

// Validate names the first field that is wrong, and what is legal.
func (c Config) Validate() error {
	if err := c.Check(c.ports(), leaseTTLMin); err != nil {
		return err //nolint:wrapcheck // names the field.
	}
	if c.CacheMemory < cacheMemoryMin {
		return fault.Errorf(fault.Invalid, "cache-memory: %v is below %v", c.CacheMemory, config.Bytes(cacheMemoryMin))
	}
	if err := c.bucket().Validate(); err != nil {
		return fault.Errorf(fault.Invalid, "%w", err)
	}
	return nil
}

// bucket gives the settings as the bucket's home takes them. AWS wants the bucket in the host name, all others take it in the path.
func (s S3) bucket() s3bucket.Config {
	return s3bucket.Config{
		Endpoint: s.Endpoint, Region: s.Region, Bucket: s.Bucket, Prefix: s.Prefix,
		AccessKey: s.AccessKey, SecretKey: s.SecretKey.Reveal(), PathStyle: s.Endpoint != "",
	}
}

// Instance is the name that the user gave.
func (c Config) Instance() string { return c.NodeID }

func (c Config) ports() node.Ports {
	return node.Ports{
		Capnp: &node.Port{Host: c.CapnpHost, Advertise: c.AdvertiseCapnp}, HTTP: &node.Port{Host: c.HTTPHost, Advertise: c.AdvertiseHTTP},
		Admin: c.Admin(),
	}
}
