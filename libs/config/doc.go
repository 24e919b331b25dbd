// Package config reads a program's settings into a struct.
//
//  1. A setting's value is taken from the first that has it: flag, SQ_* environment, YAML file of --config (or SQ_CONFIG), default. All
//     three use one name: --node-id, SQ_NODE_ID, node-id.
//  2. Every bad value is named with its source, what it is and what would be legal; all of them in one error.
//  3. A key of the file that no setting has is an error. An SQ_* variable that none has is not: the environment is shared with other
//     programs. An empty variable counts as not set.
//  4. A Secret is never printed: not by --print-config, not by a log, not in an error.
//
// A setting is an exported field with the tag koanf:"name", and usage:"…" for --help. Its type is string, bool, an integer, float64,
// time.Duration, Bytes, Secret, []string, a named one of these, or implements encoding.TextUnmarshaler and TextMarshaler by pointer.
// range:"1..64" (ends may be missing) and oneof:"text|json" bound it. Fields of embedded structs count as the struct's own; there a tag
// usage-name:"…" says what --help shows of one of them. If T or *T has Validate() error, it is called last.
//
// Called by mains. It keeps nothing between calls.
package config
