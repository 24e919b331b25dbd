package command

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/seedqueue/sq/libs/version"
)

func versionText() string { return fmt.Sprintf("sq %s (%s)\n", version.Version(), runtime.Version()) }

func (p *program) version() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this command",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if output == outputJSON {
				return json.NewEncoder(p.env.Stdout).Encode(map[string]string{"version": version.Version(), "go": runtime.Version()})
			}
			_, err := fmt.Fprint(p.env.Stdout, versionText())
			return err
		},
	}
	outputFlag(cmd, &output)
	return cmd
}
