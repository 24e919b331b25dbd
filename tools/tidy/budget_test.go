package tidy

import (
	"bufio"
	"fmt"
	"go/ast"
	"os"
	"sort"
	"strings"
	"testing"
)

// The budgets: product code only; tests may be longer.
const (
	fileLinesMax     = 400
	fileLinesHard    = 600
	funcLinesMax     = 70
	packageLinesMax  = 2500
	testFileLinesMax = 800
)

// exceptions reads testdata/exceptions.txt: "what: lines" a line, where lines is the most that is forgiven.
func exceptions(t *testing.T) map[string]int {
	t.Helper()
	file, err := os.Open("testdata/exceptions.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	forgiven := map[string]int{}
	for scan := bufio.NewScanner(file); scan.Scan(); {
		line := strings.TrimSpace(scan.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		what, lines, _ := strings.Cut(line, ": ")
		var n int
		if _, err := fmt.Sscanf(lines, "%d", &n); err != nil {
			t.Fatalf("exceptions.txt: %q: %v", line, err)
		}
		forgiven[what] = n
	}
	return forgiven
}

func TestSizesKeepTheirBudget(t *testing.T) {
	forgiven := exceptions(t)
	used := map[string]bool{}
	check := func(what string, lines, most int) {
		if lines <= most {
			return
		}
		used[what] = true
		if allowed, ok := forgiven[what]; !ok || lines > allowed {
			t.Errorf("%s: %d lines, budget %d", what, lines, most)
		} else if lines < allowed {
			t.Errorf("%s: shrank to %d lines: lower its exception from %d", what, lines, allowed)
		}
	}
	packages := map[string]int{}
	for _, s := range sources(t) {
		if s.isTest() {
			check(s.path, s.lines, testFileLinesMax)
			continue
		}
		packages[s.dir()] += s.lines
		check(s.path, s.lines, fileLinesMax)
		if s.lines > fileLinesHard {
			t.Errorf("%s: %d lines; no exception goes past %d", s.path, s.lines, fileLinesHard)
		}
		for _, decl := range s.file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			lines := s.set.Position(fn.End()).Line - s.set.Position(fn.Pos()).Line + 1
			check(s.path+" "+funcName(fn), lines, funcLinesMax)
		}
	}
	for dir, lines := range packages {
		check(dir, lines, packageLinesMax)
	}
	stale := []string{}
	for what := range forgiven {
		if !used[what] {
			stale = append(stale, what)
		}
	}
	sort.Strings(stale)
	for _, what := range stale {
		t.Errorf("exceptions.txt: %s needs no exception any more: remove its line", what)
	}
}

func funcName(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return fn.Name.Name
	}
	receiver := fn.Recv.List[0].Type
	if star, ok := receiver.(*ast.StarExpr); ok {
		receiver = star.X
	}
	if generic, ok := receiver.(*ast.IndexExpr); ok {
		receiver = generic.X
	}
	if ident, ok := receiver.(*ast.Ident); ok {
		return ident.Name + "." + fn.Name.Name
	}
	return fn.Name.Name
}
