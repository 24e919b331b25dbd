package tidy

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// drawers are package names that say nothing; the names of std packages would make importers rename.
var drawers = []string{"util", "utils", "common", "helpers", "helper", "types", "impl", "misc", "base", "core", "time", "errors", "log", "sync", "net", "io", "context"}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	documented, all := map[string]bool{}, map[string]bool{}
	for _, s := range sources(t) {
		if s.isTest() || s.isMain() {
			continue
		}
		all[s.dir()] = true
		if strings.HasSuffix(s.path, "/doc.go") && s.file.Doc != nil && len(s.file.Doc.Text()) > 120 {
			documented[s.dir()] = true
		}
		if slices.Contains(drawers, s.file.Name.Name) {
			t.Errorf("%s: package %s: name the noun", s.path, s.file.Name.Name)
		}
	}
	for dir := range all {
		if !documented[dir] {
			t.Errorf("%s: no doc.go that says what the package is, what it promises and who calls it", dir)
		}
	}
}

func TestExportedNamesAreDocumented(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() || s.isMain() {
			continue
		}
		for _, decl := range s.file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && d.Doc == nil && (d.Recv == nil || exportedReceiver(d)) {
					t.Errorf("%s: %s has no doc comment", s.set.Position(d.Pos()), funcName(d))
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if named, ok := spec.(*ast.TypeSpec); ok && named.Name.IsExported() && d.Doc == nil && named.Doc == nil {
						t.Errorf("%s: type %s has no doc comment", s.set.Position(named.Pos()), named.Name.Name)
					}
				}
			}
		}
	}
}

func exportedReceiver(fn *ast.FuncDecl) bool {
	name, _, _ := strings.Cut(funcName(fn), ".")
	return ast.IsExported(name)
}

func TestMainsOnlyWire(t *testing.T) {
	for _, s := range sources(t) {
		if s.isMain() && strings.HasSuffix(s.path, "/main.go") && s.lines > 60 {
			t.Errorf("%s: %d lines; a main parses, wires and runs in 60", s.path, s.lines)
		}
	}
}
