//go:build !sqdebug

package frame

// poison has buffers overwritten when they are released, so that whoever still uses one sees it (build tag sqdebug).
const poison = false
