package openapi

import (
	"encoding/json"
	"io/fs"
	"testing"
)

// Every generated file must be among Documents: a new proto file with routes has to be added there.
func TestDocumentsAreAllGeneratedFiles(t *testing.T) {
	documents, err := Documents()
	if err != nil {
		t.Fatal(err)
	}
	generated := 0
	err = fs.WalkDir(files, ".", func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			generated++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(documents) != generated {
		t.Errorf("Documents gives %d of %d generated files", len(documents), generated)
	}
	for _, document := range documents {
		var parsed struct {
			Paths map[string]any `json:"paths"`
		}
		if err := json.Unmarshal(document, &parsed); err != nil {
			t.Fatal(err)
		}
		if len(parsed.Paths) == 0 {
			t.Error("a document without paths")
		}
	}
}
