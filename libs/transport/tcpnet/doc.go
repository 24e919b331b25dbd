// Package tcpnet is the machine's TCP as a transport.Network.
//
//  1. Connections are *net.TCPConn, so that vfs.File.SendTo can use sendfile; TCP_NODELAY is set on both ends.
//  2. A peer that is gone without a word is found by keep-alive within 30 s.
//
// Called by mains. Safe for concurrent use. It does no TLS.
package tcpnet
