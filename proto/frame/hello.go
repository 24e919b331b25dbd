package frame

import (
	"fmt"
	"net"

	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// HelloParams is what a client says about itself.
type HelloParams struct {
	Role       wirecapnp.Role
	ClientID   string
	Software   string // "sq-go/0.1.0"
	Token      string
	Zone       string
	ClusterID  string // empty = any
	OnBehalfOf string // gateway → broker: the principal
	// MinVersion and MaxVersion are the protocol versions offered; 0 = what this build speaks.
	MinVersion, MaxVersion uint16
}

// HelloInfo is a Hello as a server sees it.
type HelloInfo struct {
	HelloParams
	Version uint16 // agreed on
	Remote  net.Addr
}

// ServerInfo is what a server says about itself.
type ServerInfo struct {
	Version   uint16 // agreed on; set by the server itself
	ClusterID string
	NodeID    uint64
	Software  string
	// MaxMessageBytes, MaxBodyBytes and MaxInFlight are the server's limits; 0 = those of its ServerConfig.
	MaxMessageBytes, MaxBodyBytes, MaxInFlight int
}

// write puts the parameters on the wire.
func (h HelloParams) write(out wirecapnp.Hello) error {
	if h.MinVersion == 0 {
		h.MinVersion = Version
	}
	if h.MaxVersion == 0 {
		h.MaxVersion = Version
	}
	out.SetMinVersion(h.MinVersion)
	out.SetMaxVersion(h.MaxVersion)
	out.SetRole(h.Role)
	for _, field := range []struct {
		value string
		set   func(string) error
	}{
		{h.ClientID, out.SetClientId},
		{h.Software, out.SetSoftware},
		{h.Token, out.SetToken},
		{h.Zone, out.SetZone},
		{h.ClusterID, out.SetClusterId},
		{h.OnBehalfOf, out.SetOnBehalfOf},
	} {
		if field.value == "" {
			continue
		}
		if err := field.set(field.value); err != nil {
			return fmt.Errorf("set hello field: %w", err)
		}
	}
	return nil
}

// readHello takes a Hello apart and agrees on a version.
func readHello(in wirecapnp.Hello, remote net.Addr) (HelloInfo, *RemoteError) {
	info := HelloInfo{Remote: remote, Version: Version}
	info.MinVersion, info.MaxVersion, info.Role = in.MinVersion(), in.MaxVersion(), in.Role()
	for _, field := range []struct {
		to  *string
		get func() (string, error)
	}{
		{&info.ClientID, in.ClientId},
		{&info.Software, in.Software},
		{&info.Token, in.Token},
		{&info.Zone, in.Zone},
		{&info.ClusterID, in.ClusterId},
		{&info.OnBehalfOf, in.OnBehalfOf},
	} {
		text, err := field.get()
		if err != nil {
			return info, Errorf(wirecapnp.ErrorKind_invalid, "hello is unreadable: %v", err)
		}
		*field.to = text
	}
	if info.MinVersion > Version || info.MaxVersion < Version {
		return info, Errorf(wirecapnp.ErrorKind_unsupportedVersion, "this server speaks protocol version %d, the client offers %d to %d",
			Version, info.MinVersion, info.MaxVersion)
	}
	return info, nil
}

// write puts the server's data on the wire.
func (s ServerInfo) write(out wirecapnp.HelloReply) error {
	out.SetVersion(s.Version)
	out.SetNodeId(s.NodeID)
	out.SetMaxMessageBytes(uint32(s.MaxMessageBytes))
	out.SetMaxBodyBytes(uint32(s.MaxBodyBytes))
	out.SetMaxInFlight(uint32(s.MaxInFlight))
	if err := out.SetClusterId(s.ClusterID); err != nil {
		return fmt.Errorf("set cluster id: %w", err)
	}
	if err := out.SetSoftware(s.Software); err != nil {
		return fmt.Errorf("set software: %w", err)
	}
	return nil
}

// readServerInfo takes the answer to Hello apart.
func readServerInfo(in wirecapnp.HelloReply) (ServerInfo, error) {
	info := ServerInfo{
		Version:         in.Version(),
		NodeID:          in.NodeId(),
		MaxMessageBytes: int(in.MaxMessageBytes()),
		MaxBodyBytes:    int(in.MaxBodyBytes()),
		MaxInFlight:     int(in.MaxInFlight()),
	}
	var err error
	if info.ClusterID, err = in.ClusterId(); err != nil {
		return info, fmt.Errorf("read cluster id: %w", err)
	}
	if info.Software, err = in.Software(); err != nil {
		return info, fmt.Errorf("read software: %w", err)
	}
	return info, nil
}
