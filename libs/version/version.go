package version

import "runtime/debug"

// linked is set by the linker: -ldflags "-X github.com/seedqueue/sq/libs/version.linked=v0.1.0".
//
//nolint:gochecknoglobals // the linker can set nothing else; never written by code
var linked string

// Version gives the version that was linked in; else what the build info says: the module's version, or "dev-" and the commit with
// "-dirty" behind it where files were changed; else "dev".
func Version() string {
	if linked != "" {
		return linked
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "dev"
	}
	return fromBuild(info)
}

func fromBuild(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	commit := settings["vcs.revision"]
	if commit == "" {
		return "dev"
	}
	out := "dev-" + commit[:min(12, len(commit))]
	if settings["vcs.modified"] == "true" {
		out += "-dirty"
	}
	return out
}
