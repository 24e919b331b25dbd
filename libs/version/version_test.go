package version

import (
	"runtime/debug"
	"testing"
)

func TestFromBuild(t *testing.T) {
	commit := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef"}
	dirty := debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	for _, c := range []struct {
		main     string
		settings []debug.BuildSetting
		want     string
	}{
		{"v1.2.3", []debug.BuildSetting{commit}, "v1.2.3"},
		{"(devel)", []debug.BuildSetting{commit}, "dev-0123456789ab"},
		{"", []debug.BuildSetting{commit, dirty}, "dev-0123456789ab-dirty"},
		{"(devel)", nil, "dev"},
	} {
		info := &debug.BuildInfo{Main: debug.Module{Version: c.main}, Settings: c.settings}
		if got := fromBuild(info); got != c.want {
			t.Errorf("%q %v: %q, want %q", c.main, c.settings, got, c.want)
		}
	}
	if Version() == "" {
		t.Error("no version")
	}
}
