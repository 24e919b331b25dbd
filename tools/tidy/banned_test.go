package tidy

import (
	"go/ast"
	"go/token"
	"path"
	"strconv"
	"strings"
	"testing"
)

// banned calls and what to use instead. Programs (package main) and tests may use them: they are where the world is wired in.
var banned = map[string]map[string]string{
	"time": {
		"Now": "clock.Clock", "Sleep": "clock.Clock's timers", "After": "clock.Clock's timers", "NewTimer": "clock.Clock", "Tick": "clock.Clock",
		"NewTicker": "clock.Clock's timers", "AfterFunc": "clock.Clock's timers", "Since": "clock.Clock", "Until": "clock.Clock",
	},
	"os": {
		"Open": "vfs.FS", "OpenFile": "vfs.FS", "Create": "vfs.FS", "ReadFile": "vfs.FS", "WriteFile": "vfs.FS", "Rename": "vfs.FS", "Remove": "vfs.FS",
		"RemoveAll": "vfs.FS", "Mkdir": "vfs.FS", "MkdirAll": "vfs.FS", "Getenv": "config", "Exit": "an error", "Stdout": "an injected writer",
		"Stderr": "an injected writer",
	},
	"net": {"Dial": "transport.Network", "Listen": "transport.Network", "DialTimeout": "transport.Network"},
	"fmt": {"Print": "an injected writer", "Println": "an injected writer", "Printf": "an injected writer"},
	"log": {"Print": "slog", "Println": "slog", "Printf": "slog", "Fatal": "an error", "Fatalf": "an error", "Panic": "an error"},
	"net/http": {
		"DefaultServeMux": "an own mux", "Handle": "an own mux", "HandleFunc": "an own mux", "DefaultClient": "an own client", "ListenAndServe": "telemetry.ServeHTTP",
		"Get": "an own client",
	},
	"log/slog":     {"Default": "an injected logger", "SetDefault": "an injected logger", "Info": "an injected logger", "Warn": "an injected logger", "Error": "an injected logger"},
	"math/rand/v2": {"Int": "an injected source", "IntN": "an injected source", "Float64": "an injected source", "Int64N": "an injected source", "Shuffle": "an injected source"},
	"math/rand":    {"Int": "an injected source", "Intn": "an injected source", "Float64": "an injected source", "Seed": "an injected source"},
}

// homes may make the calls of the packages behind them: each is the one place where that part of the world enters.
var homes = map[string][]string{
	"libs/clock":                   {"time"},
	"libs/vfs/osfs":                {"os"},
	"libs/transport/tcpnet":        {"net"},
	"libs/transport/memnet":        {"time"},                       // deadlines of net.Conn are wall time by contract
	"libs/transport/transporttest": {"time"},                       // tests deadlines of net.Conn
	"proto/frame":                  {"time"},                       // deadlines of net.Conn are wall time by contract; users link it without libs
	"sdk/go/sq":                    {"time", "os", "math/rand/v2"}, // a client library lives in the user's world
	"sdk/go/sqtest":                {"time", "net"},
	"libs/config":                  {"os"},
	"libs/process":                 {"os"}, // the mains' common part
	"cli/":                         {"time", "os", "net", "fmt"},
	"tests/":                       {"time", "os", "net", "fmt", "net/http", "math/rand/v2"},
	"tools/":                       {"time", "os", "fmt"},
}

func isHome(dir, pkg string) bool {
	for home, packages := range homes {
		if dir == home || strings.HasSuffix(home, "/") && strings.HasPrefix(dir+"/", home) {
			for _, p := range packages {
				if p == pkg {
					return true
				}
			}
		}
	}
	return false
}

func TestTheWorldIsReachedThroughItsHomes(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() || s.isMain() {
			continue
		}
		names := map[string]string{} // local name → import path
		for _, spec := range s.file.Imports {
			target, _ := strconv.Unquote(spec.Path.Value)
			if _, ok := banned[target]; !ok {
				continue
			}
			local := path.Base(target)
			if local == "v2" {
				local = "rand"
			}
			if spec.Name != nil {
				local = spec.Name.Name
			}
			names[local] = target
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			ident, ok := selector.X.(*ast.Ident)
			if !ok {
				return true
			}
			target := names[ident.Name]
			if instead, ok := banned[target][selector.Sel.Name]; ok && !isHome(s.dir(), target) {
				t.Errorf("%s: %s.%s: use %s", s.set.Position(n.Pos()), target, selector.Sel.Name, instead)
			}
			return true
		})
	}
}

func TestNoInitAndNoGlobalState(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		for _, decl := range s.file.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Name.Name == "init" && fn.Recv == nil {
				t.Errorf("%s: init: wire it where it is used", s.path)
			}
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.VAR {
				continue
			}
			for _, spec := range gen.Specs {
				for i, name := range spec.(*ast.ValueSpec).Names {
					if name.Name == "_" || isConstantLike(s, gen, spec.(*ast.ValueSpec), i) {
						continue
					}
					t.Errorf("%s: var %s: no global state; a constant table carries //nolint:gochecknoglobals and its reason", s.set.Position(name.Pos()), name.Name)
				}
			}
		}
	}
}

// isConstantLike accepts errors, and tables that say why they are package-level.
func isConstantLike(s source, gen *ast.GenDecl, spec *ast.ValueSpec, i int) bool {
	if strings.HasPrefix(spec.Names[i].Name, "Err") || strings.HasPrefix(spec.Names[i].Name, "err") {
		return true
	}
	line := s.set.Position(gen.Pos()).Line
	specLine := s.set.Position(spec.Pos()).Line
	for _, group := range s.file.Comments {
		for _, comment := range group.List {
			at := s.set.Position(comment.Pos()).Line
			if strings.HasPrefix(comment.Text, "//go:embed") && at == line-1 {
				return true
			}
			if strings.HasPrefix(comment.Text, "//nolint:gochecknoglobals // ") && (at == line || at == line-1 || at == specLine || at == specLine-1) {
				return true
			}
		}
	}
	return false
}
