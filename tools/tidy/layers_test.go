package tidy

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

const modulePrefix = "github.com/seedqueue/sq/"

// mayImport says which modules a module sees; itself it always sees.
var mayImport = map[string][]string{
	"proto":                {},
	"libs":                 {"proto"},
	"sdk/go":               {"proto"},
	"services/broker":      {"proto", "libs"},
	"services/coordinator": {"proto", "libs"},
	"services/gateway":     {"proto", "libs"},
	"services/tierer":      {"proto", "libs"},
	"services/allinone":    {"proto", "libs", "services/broker", "services/coordinator", "services/gateway", "services/tierer"},
	"cli":                  {"proto", "libs", "sdk/go", "services/allinone", "services/broker"},
	"tests": {
		"proto", "libs", "sdk/go", "services/allinone", "services/broker", "services/coordinator", "services/gateway",
		"services/tierer", "cli",
	},
	"tools": {},
}

// libLayers orders the packages of libs: a package imports only from lower layers, or from below itself.
var libLayers = [][]string{
	{"clock", "fault", "backoff", "partition", "version", "mutant"},
	{"config", "telemetry", "lifecycle", "vfs", "transport", "objstore"},
	{"segment", "topology"},
	{"manifest", "node"},
	{"process"},
}

func moduleOf(p string) string {
	for module := range mayImport {
		if p == module || strings.HasPrefix(p, module+"/") {
			return module
		}
	}
	return ""
}

func libLayer(p string) int {
	name, _, _ := strings.Cut(strings.TrimPrefix(p, "libs/"), "/")
	return slices.IndexFunc(libLayers, func(layer []string) bool { return slices.Contains(layer, name) })
}

func TestModulesImportOnlyTheirLayer(t *testing.T) {
	for _, s := range sources(t) {
		from := moduleOf(s.path)
		if from == "" {
			t.Errorf("%s: belongs to no module of the layer table", s.path)
			continue
		}
		for _, spec := range s.file.Imports {
			target, err := strconv.Unquote(spec.Path.Value)
			if err != nil || !strings.HasPrefix(target, modulePrefix) {
				continue
			}
			target = strings.TrimPrefix(target, modulePrefix)
			to := moduleOf(target)
			if to != from && !slices.Contains(mayImport[from], to) {
				t.Errorf("%s: %s may not import %s", s.path, from, target)
			}
			if from != "libs" || to != "libs" {
				continue
			}
			lower, upper := libLayer(target), libLayer(s.path)
			if lower < 0 || upper < 0 {
				t.Errorf("%s or %s: not in the layers of libs", s.path, target)
			} else if lower > upper {
				t.Errorf("%s: may not import %s, which lies above it", s.path, target)
			}
		}
	}
}

// servicesOnlyCompose: inside services/allinone and the programs nothing of a service but its root package is reachable anyway (Go's
// internal rule); the SDK must also stay free of the server's own dependencies.
func TestSDKDependsOnFewModules(t *testing.T) {
	allowed := []string{modulePrefix + "proto", modulePrefix + "sdk", "go.opentelemetry.io/otel", "capnproto.org/go/capnp", "golang.org/x/sync"}
	for _, s := range sources(t) {
		if moduleOf(s.path) != "sdk/go" || s.isTest() {
			continue
		}
		for _, spec := range s.file.Imports {
			target, _ := strconv.Unquote(spec.Path.Value)
			if !strings.Contains(strings.Split(target, "/")[0], ".") {
				continue
			}
			if !slices.ContainsFunc(allowed, func(prefix string) bool { return strings.HasPrefix(target, prefix) }) {
				t.Errorf("%s: imports %s; users of the SDK would have to carry it", s.path, target)
			}
		}
	}
}
