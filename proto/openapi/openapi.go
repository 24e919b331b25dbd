package openapi

import (
	"embed"
	"fmt"
)

//go:embed sq
var files embed.FS

// Documents gives the JSON of every generated document, in a fixed order.
func Documents() ([][]byte, error) {
	names := []string{"sq/control/v1/control.openapi.json", "sq/data/v1/data.openapi.json"}
	documents := make([][]byte, 0, len(names))
	for _, name := range names {
		document, err := files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read embedded OpenAPI document: %w", err)
		}
		documents = append(documents, document)
	}
	return documents, nil
}
