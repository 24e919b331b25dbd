package tidy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// root of the repository, from this package's folder.
const root = "../.."

// source is a parsed Go file of the product: not generated, not testdata.
type source struct {
	path  string // slash-separated, from the root
	lines int
	file  *ast.File
	set   *token.FileSet
}

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }
func (s source) dir() string  { return path.Dir(s.path) }

// isMain tells whether the file is part of a program, which may touch the world.
func (s source) isMain() bool { return s.file.Name.Name == "main" }

// sources parses every Go file but generated ones and testdata.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	walk(t, func(name string) {
		if !strings.HasSuffix(name, ".go") || strings.HasPrefix(name, "proto/gen/") {
			return
		}
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, data, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if ast.IsGenerated(file) {
			return
		}
		all = append(all, source{path: name, lines: strings.Count(string(data), "\n"), file: file, set: set})
	})
	if len(all) < 50 {
		t.Fatalf("only %d sources found below %s", len(all), root)
	}
	return all
}

// walk calls fn for every file of the tree that is not hidden, built or test data.
func walk(t *testing.T, fn func(name string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(full string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && full != root && (strings.HasPrefix(name, ".") && name != ".ci" || name == "testdata" || name == "bin" || name == "third_party") {
			return filepath.SkipDir
		}
		if !entry.IsDir() {
			rel, err := filepath.Rel(root, full)
			if err != nil {
				return err
			}
			fn(filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
