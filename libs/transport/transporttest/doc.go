// Package transporttest is what every transport.Network must pass. Called by the tests of the homes.
package transporttest
