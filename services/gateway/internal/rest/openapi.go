package rest

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"strings"

	"github.com/seedqueue/sq/proto/openapi"
)

//go:embed routes.json
var handwritten []byte

//go:embed page
var page embed.FS

// Places of the document where a topic is named.
const (
	topicPath     = "/v1/topics/{topic}"
	namespacePath = "/v1/namespaces/{namespace}/topics/{topic}"
)

// document is as much of OpenAPI as is merged.
type document struct {
	OpenAPI string `json:"openapi"`
	Info    struct {
		Title       string `json:"title"`
		Description string `json:"description"`
		Version     string `json:"version"`
	} `json:"info"`
	Tags       []any                     `json:"tags"`
	Paths      map[string]map[string]any `json:"paths"`
	Components struct {
		Schemas map[string]any `json:"schemas"`
	} `json:"components"`
}

// describe merges the generated documents and the routes that are written by hand.
func describe(version string) ([]byte, error) {
	merged := document{OpenAPI: "3.1.0", Paths: map[string]map[string]any{}}
	merged.Info.Title, merged.Info.Version = "SQ", version
	merged.Info.Description = "Topics, records and the cluster over REST. int64 is a string in JSON, bytes are base64."
	merged.Components.Schemas = map[string]any{}
	generated, err := openapi.Documents()
	if err != nil {
		return nil, fmt.Errorf("describe API: %w", err)
	}
	for _, data := range generated {
		var one document
		// Every error of ours has its own shape, not google.rpc.Status.
		data = bytes.ReplaceAll(data, []byte("#/components/schemas/google.rpc.Status"), []byte("#/components/schemas/sq.Error"))
		if err := json.Unmarshal(data, &one); err != nil {
			return nil, fmt.Errorf("describe API: %w", err)
		}
		delete(one.Components.Schemas, "google.rpc.Status")
		merged.Tags = append(merged.Tags, one.Tags...)
		maps.Copy(merged.Paths, one.Paths)
		maps.Copy(merged.Components.Schemas, one.Components.Schemas)
	}
	if err := merged.addHandwritten(); err != nil {
		return nil, fmt.Errorf("describe API: %w", err)
	}
	data, err := json.MarshalIndent(merged, "", " ")
	if err != nil {
		return nil, fmt.Errorf("describe API: %w", err)
	}
	return data, nil
}

func (d *document) addHandwritten() error {
	var ours struct {
		Tags    []any                     `json:"tags"`
		Schemas map[string]any            `json:"schemas"`
		Topic   map[string]map[string]any `json:"topic"`
		Paths   map[string]map[string]any `json:"paths"`
	}
	if err := json.Unmarshal(handwritten, &ours); err != nil {
		return fmt.Errorf("read routes.json: %w", err)
	}
	d.Tags = append(d.Tags, ours.Tags...)
	maps.Copy(d.Components.Schemas, ours.Schemas)
	maps.Copy(d.Paths, ours.Paths)
	for below, methods := range ours.Topic {
		d.Paths[topicPath+below] = ofTopic(methods, "", "topic")
		d.Paths[namespacePath+below] = ofTopic(methods, "_InNamespace", "namespace", "topic")
	}
	return nil
}

// ofTopic gives the methods of a path with its parameters in front, and the default answer behind.
func ofTopic(methods map[string]any, suffix string, names ...string) map[string]any {
	out := map[string]any{}
	for method, operation := range methods {
		op, _ := operation.(map[string]any)
		op = maps.Clone(op)
		parameters := []any{}
		for _, name := range names {
			parameters = append(parameters, map[string]any{"name": name, "in": "path", "required": true, "schema": map[string]any{"type": "string"}})
		}
		more, _ := op["parameters"].([]any)
		op["parameters"] = append(parameters, more...)
		id, _ := op["operationId"].(string)
		op["operationId"] = id + suffix
		responses, _ := op["responses"].(map[string]any)
		responses = maps.Clone(responses)
		responses["default"] = map[string]any{
			"description": "An error.",
			"content":     map[string]any{"application/json": map[string]any{"schema": map[string]any{"$ref": "#/components/schemas/sq.Error"}}},
		}
		op["responses"] = responses
		out[method] = op
	}
	return out
}

// pages serves the documentation's page. It runs nothing but its own script.
func pages() http.Handler {
	files, err := fs.Sub(page, "page")
	if err != nil { // the name is a constant
		return http.NotFoundHandler()
	}
	server := http.StripPrefix("/docs", http.FileServerFS(files))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/") && r.URL.Path != "/docs/" {
			notFound(w, r)
			return
		}
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'")
		server.ServeHTTP(w, r)
	})
}
