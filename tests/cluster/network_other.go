//go:build !linux

package cluster

import (
	"errors"
	"testing"
)

// Network is of Linux only.
type Network struct{}

// NewNetwork says that there is none.
func NewNetwork(testing.TB) (*Network, error) {
	return nil, errors.New("network namespaces need Linux")
}

func (n *Network) host(string) (string, error) { return "127.0.0.1", nil }

func (n *Network) within(string) []string { return nil }

// Cut does nothing.
func (n *Network) Cut(testing.TB, string, string) {}

// Heal does nothing.
func (n *Network) Heal(testing.TB) {}

// Isolate does nothing.
func (n *Network) Isolate(testing.TB, string) {}
