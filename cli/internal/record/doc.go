// Package record is how `sq` writes records down and reads them: as lines, as raw bytes, as JSON and by a template.
//
//  1. JSON has an object a line: topic, partition, offset, timestamp, appendTime, key, value, headers. Text that is valid UTF-8 stands as a
//     string; other bytes stand as base64 in keyData, valueData, data. null is null and "" is empty.
//  2. What JSON of Writer says, ReadJSON reads back, so that a topic can be copied by a pipe.
//  3. Writing a record allocates nothing but what JSON needs.
//
// Called by cli/internal/command. A Writer belongs to one goroutine.
package record
