// Package tidy holds SQ's architecture and style as tests: what a reviewer would otherwise have to remember.
//
//  1. Layers: a module imports only what ARCHITECTURE.md allows it (layers_test.go).
//  2. Budgets: files, functions and packages keep their size; testdata/exceptions.txt lists who does not yet, and only shrinks (budget_test.go).
//  3. Words and calls: every package has a doc.go; time, disk, network, randomness and output are reached through their homes only; no init,
//     no global state (banned_test.go, doc_test.go).
//  4. The workspace lists every module; links in documents lead somewhere (workspace_test.go).
//
// Run by `make lint`. It reads sources as text and syntax and runs nothing.
package tidy
