//go:build sqdebug

package frame

const poison = true
