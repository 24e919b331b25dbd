package tidy

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestWorkspaceListsEveryModule(t *testing.T) {
	work, err := os.ReadFile(filepath.Join(root, "go.work"))
	if err != nil {
		t.Fatal(err)
	}
	walk(t, func(name string) {
		if path.Base(name) != "go.mod" || strings.HasPrefix(name, "tools/") {
			return
		}
		if !strings.Contains(string(work), "./"+path.Dir(name)+"\n") {
			t.Errorf("%s: not in go.work: run make modules", name)
		}
	})
}

// link finds the target of a Markdown link.
var link = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)

func TestLinksLeadSomewhere(t *testing.T) {
	walk(t, func(name string) {
		if !strings.HasSuffix(name, ".md") {
			return
		}
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(data), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, path.Dir(name), m[1])); err != nil {
				t.Errorf("%s: link to %s leads nowhere", name, m[1])
			}
		}
	})
}
