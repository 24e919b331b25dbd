package tierer

import (
	"net"
	"time"

	"github.com/seedqueue/sq/libs/config"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/objstore/s3bucket"
	"github.com/seedqueue/sq/libs/partition"
)

// Config is what a user sets.
type Config struct {
	NodeID         string        `koanf:"node-id" usage:"name of this tierer, unique among them and kept over restarts; empty = the advertised data address"`
	Etcd           []string      `koanf:"etcd" usage:"etcd endpoints, comma separated"`
	ClusterID      string        `koanf:"cluster-id" usage:"UUID of the cluster to belong to; empty = the one in etcd, or a new one"`
	Zone           string        `koanf:"zone" usage:"failure zone of this process"`
	CapnpHost      string        `koanf:"capnp-host" usage:"address to serve cold reads on, host:port"`
	HTTPHost       string        `koanf:"http-host" usage:"address to serve /livez, /readyz and /version on, host:port"`
	AdminHost      string        `koanf:"admin-host" usage:"address to serve /metrics and pprof on, host:port; empty = nowhere"`
	AdvertiseCapnp string        `koanf:"advertise-capnp" usage:"address that gateways reach the data port by; empty = the listen address"`
	AdvertiseHTTP  string        `koanf:"advertise-http" usage:"address that others reach the HTTP port by; empty = the listen address"`
	SpoolDir       string        `koanf:"spool-dir" usage:"directory for segments on their way to the bucket, made if missing; empty = in memory"`
	CacheMemory    config.Bytes  `koanf:"cache-memory" usage:"memory for blocks that cold reads have read, 16MiB and up"`
	LeaseTTL       time.Duration `koanf:"lease-ttl" usage:"how long after its last renewal the tierer counts as gone, 2s to 60s"`
	LogLevel       string        `koanf:"log-level" usage:"least level that is logged" oneof:"debug|info|warn|error"`
	LogFormat      string        `koanf:"log-format" usage:"form of the log" oneof:"text|json"`
	S3
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
		Etcd:      []string{"http://localhost:2379"},
		CapnpHost: "localhost:6364", HTTPHost: "localhost:6362", AdminHost: "localhost:6369",
		CacheMemory: 256 << 20, LeaseTTL: 6 * time.Second,
		LogLevel: "info", LogFormat: "text",
		S3: S3{Bucket: "seedqueue", Region: "us-east-1"},
	}
}

// Validate names the first field that is wrong, and what is legal.
func (c Config) Validate() error {
	for _, address := range []struct {
		field, value string
		optional     bool
	}{
		{"capnp-host", c.CapnpHost, false},
		{"http-host", c.HTTPHost, false},
		{"admin-host", c.AdminHost, true},
		{"advertise-capnp", c.AdvertiseCapnp, true},
		{"advertise-http", c.AdvertiseHTTP, true},
	} {
		if address.value == "" && address.optional {
			continue
		}
		if _, _, err := net.SplitHostPort(address.value); err != nil {
			return fault.Errorf(fault.Invalid, "%s: %q is not host:port", address.field, address.value)
		}
	}
	if _, err := c.cluster(); err != nil {
		return err
	}
	if c.CacheMemory < cacheMemoryMin {
		return fault.Errorf(fault.Invalid, "cache-memory: %v is below %v", c.CacheMemory, config.Bytes(cacheMemoryMin))
	}
	if c.LeaseTTL < leaseTTLMin || c.LeaseTTL > leaseTTLMax {
		return fault.Errorf(fault.Invalid, "lease-ttl: %v is outside %v to %v", c.LeaseTTL, leaseTTLMin, leaseTTLMax)
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

// cluster gives the wanted cluster, zero = any.
func (c Config) cluster() (partition.UUID, error) {
	if c.ClusterID == "" {
		return partition.UUID{}, nil
	}
	id, err := partition.ParseUUID(c.ClusterID)
	if err != nil {
		return partition.UUID{}, fault.Errorf(fault.Invalid, "cluster-id: %q is not a UUID", c.ClusterID)
	}
	return id, nil
}
