package config_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/config"
)

type common struct {
	Level string   `koanf:"log-level" oneof:"debug|info"`
	Etcd  []string `koanf:"etcd" usage:"endpoints"`
}

type mode struct{ name string }

func (m *mode) UnmarshalText(text []byte) error {
	if string(text) == "bad" {
		return errors.New("not a mode")
	}
	m.name = string(text)
	return nil
}
func (m *mode) MarshalText() ([]byte, error) { return []byte(m.name), nil }

type settings struct {
	common  `usage-log-level:"what is logged"`
	Host    string        `koanf:"grpc-host" usage:"where to listen"`
	Node    uint64        `koanf:"node-id" usage:"which broker" range:"1.."`
	TTL     time.Duration `koanf:"lease-ttl" usage:"how long" range:"1s..1m"`
	Segment config.Bytes  `koanf:"segment-bytes" range:"64KiB..1GiB"`
	Key     config.Secret `koanf:"s3-secret-key"`
	Create  bool          `koanf:"auto-create"`
	Ratio   float64       `koanf:"ratio"`
	Mode    mode          `koanf:"mode"`
	Other   string        // not a setting
}

func (s *settings) Validate() error {
	if s.Host == "refused" {
		return errors.New("refused by Validate")
	}
	return nil
}

func defaults() settings {
	return settings{common: common{Level: "info"}, Host: "default:1", Node: 1, TTL: 6 * time.Second, Segment: 1 << 20, Mode: mode{"fast"}}
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sq.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOrder(t *testing.T) {
	path := write(t, "grpc-host: file:1\nnode-id: 7\nlease-ttl: 7s\nsegment-bytes: 65536\netcd: [a:1, b:1]\nratio: 0.5\nauto-create: true\n")
	environ := []string{"SQ_CONFIG=" + path, "SQ_GRPC_HOST=env:1", "SQ_NODE_ID=8", "SQ_LOG_LEVEL=", "SQ_UNKNOWN=1", "NODE_ID=99"}
	got, err := config.Load("sq-test", []string{"--grpc-host", "flag:1", "--mode=slow", "--auto-create=false"}, environ, defaults())
	if err != nil {
		t.Fatal(err)
	}
	want := defaults()
	want.Host, want.Node, want.TTL, want.Segment, want.Etcd = "flag:1", 8, 7*time.Second, 65536, []string{"a:1", "b:1"}
	want.Ratio, want.Mode = 0.5, mode{"slow"}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(settings{}, common{}, mode{})); diff != "" {
		t.Error(diff)
	}
}

func TestBadValuesAreNamed(t *testing.T) {
	path := write(t, "lease-ttl: 2h\nsegment-bytes: {a: 1}\n")
	for _, c := range []struct {
		name string
		args []string
		env  []string
		want []string
	}{
		{"unknown flag", []string{"--nod-id", "1"}, nil, []string{"--nod-id", "sq-test --help"}},
		{"argument", []string{"extra"}, nil, []string{`"extra"`}},
		{"type", []string{"--node-id", "x"}, nil, []string{`--node-id: "x": not a whole number`}},
		{"range", []string{"--node-id=0"}, nil, []string{`--node-id: "0": outside 1..`}},
		{"environment", nil, []string{"SQ_LEASE_TTL=5"}, []string{`SQ_LEASE_TTL: "5": not a duration`}},
		{"word", nil, []string{"SQ_LOG_LEVEL=loud"}, []string{`SQ_LOG_LEVEL: "loud": none of debug, info`}},
		{"size", []string{"--segment-bytes", "64MB"}, nil, []string{`--segment-bytes: "64MB": not a size`}},
		{"text", []string{"--mode", "bad"}, nil, []string{`--mode: "bad": not a mode`}},
		{"bool", []string{"--auto-create=maybe"}, nil, []string{`--auto-create: "maybe": not true or false`}},
		{"all of them", []string{"--config", path, "--node-id=-1"}, nil, []string{
			path + `: lease-ttl: "2h": outside 1s..1m`, "segment-bytes.a: no such setting", `--node-id: "-1"`,
		}},
		{"no file", []string{"--config", path + "x"}, nil, []string{path + "x", "no such file"}},
		{"validate", []string{"--grpc-host", "refused"}, nil, []string{"check settings: refused by Validate"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := config.Load("sq-test", c.args, c.env, defaults())
			if err == nil || errors.Is(err, config.ErrDone) {
				t.Fatalf("got %v", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
		})
	}
}

func TestUnknownKeyOfFile(t *testing.T) {
	_, err := config.Load("sq-test", []string{"--config", write(t, "grpc:\n  host: x\nnode_id: 3\nfoo: 1\n")}, nil, defaults())
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{`grpc.host: no such setting (it is "grpc-host")`, `node_id: no such setting (it is "node-id")`, "foo: no such setting"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
}

func TestPrints(t *testing.T) {
	for flag, wants := range map[string][]string{
		"--help":         {"Usage: sq-test [flags]", "--grpc-host string", "where to listen", "(1s..1m)", "SQ_NODE_ID", "what is logged (debug, info)", "endpoints"},
		"-h":             {"Usage: sq-test"},
		"--version":      {"sq-test "},
		"--print-config": {"grpc-host: flag:1\n", "node-id: 1\n", "segment-bytes: 1MiB\n", "s3-secret-key: '[redacted]'\n", "# where to listen"},
	} {
		var out strings.Builder
		_, err := config.Load("sq-test", []string{flag, "--grpc-host=flag:1", "--s3-secret-key=hush"}, nil, defaults(), config.Output(&out))
		if !errors.Is(err, config.ErrDone) {
			t.Errorf("%s: %v", flag, err)
		}
		for _, want := range wants {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: lacks %q:\n%s", flag, want, out.String())
			}
		}
		if strings.Contains(out.String(), "hush") {
			t.Errorf("%s: shows the secret", flag)
		}
	}
}

func TestPrintedConfigCanBeRead(t *testing.T) {
	var out strings.Builder
	args := []string{"--grpc-host=a: b #c", "--etcd=x:1,y:2", "--segment-bytes=128KiB", "--ratio=0.25"}
	if _, err := config.Load("sq-test", append(args, "--print-config"), nil, defaults(), config.Output(&out)); !errors.Is(err, config.ErrDone) {
		t.Fatal(err)
	}
	want, err := config.Load("sq-test", args, nil, defaults())
	if err != nil {
		t.Fatal(err)
	}
	got, err := config.Load("sq-test", []string{"--config", write(t, out.String())}, nil, defaults())
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprintf("%+v", want) != fmt.Sprintf("%+v", got) {
		t.Errorf("wrote %+v, read %+v", want, got)
	}
}

func TestSecretHides(t *testing.T) {
	s := config.Secret("hush")
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", s)
	marshalled, _ := s.MarshalText()
	shown := fmt.Sprintf("%v %+v %#v %s %q %x %s %s", s, struct{ K config.Secret }{s}, s, s, s, s, marshalled, log.String())
	if strings.Contains(shown, "hush") || strings.Contains(shown, "68757368") {
		t.Errorf("shown: %s", shown)
	}
	if s.Reveal() != "hush" {
		t.Error("Reveal hides it too")
	}
	_, err := config.Load("sq-test", []string{"--secret=hush"}, nil, struct {
		K config.Secret `koanf:"secret" oneof:"a|b"`
	}{K: "a"})
	if err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("error %v", err)
	}
}

func FuzzBytes(f *testing.F) {
	for _, s := range []string{"0", "1", "64KiB", "8MiB", "1GiB", "9TiB", "10B", "-1", "64MB", "9223372036854775807", "8388608TiB", "KiB", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var b, again config.Bytes
		if b.UnmarshalText([]byte(s)) != nil {
			return
		}
		if b < 0 {
			t.Fatalf("%q is negative", s)
		}
		if err := again.UnmarshalText([]byte(b.String())); err != nil || again != b {
			t.Errorf("%q → %d → %q → %d, %v", s, b, b, again, err)
		}
	})
}
