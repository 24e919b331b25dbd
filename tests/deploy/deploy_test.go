package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.starlark.net/syntax"
	"go.yaml.in/yaml/v3"

	"github.com/seedqueue/sq/tests/cluster"
)

type composeFile struct {
	Services map[string]struct {
		Image       string            `yaml:"image"`
		Environment map[string]string `yaml:"environment"`
		DependsOn   []string          `yaml:"depends_on"`
		Ports       []string          `yaml:"ports"`
		Volumes     []string          `yaml:"volumes"`
	} `yaml:"services"`
	Volumes map[string]any `yaml:"volumes"`
}

func readCompose(t *testing.T, root string) composeFile {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "deploy", "compose", "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file composeFile
	if err := yaml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestComposeSurvivesTheLossOfAnyOne: there are three brokers, two coordinators and two gateways, no two with one id, address, port or volume.
func TestComposeSurvivesTheLossOfAnyOne(t *testing.T) {
	file := readCompose(t, filepath.Join("..", ".."))
	count, seen := map[string]int{}, map[string]string{}
	for name, service := range file.Services {
		program, ours := strings.CutPrefix(service.Image, "seedqueue/")
		if !ours {
			continue
		}
		program, _, _ = strings.Cut(program, ":")
		count[program]++
		own := append(slices.Clone(service.Volumes), "id "+service.Environment["SQ_NODE_ID"])
		for _, port := range service.Ports {
			own = append(own, "port "+port[:strings.LastIndex(port, ":")])
		}
		for key, address := range service.Environment {
			if strings.HasPrefix(key, "SQ_ADVERTISE_") {
				own = append(own, "address "+address)
				if host, _, _ := strings.Cut(address, ":"); host != name {
					t.Errorf("%s: %s=%s is another's address", name, key, address)
				}
			}
		}
		for _, thing := range own {
			if other, taken := seen[thing]; taken {
				t.Errorf("%s and %s have the same %s", name, other, thing)
			}
			seen[thing] = name
		}
	}
	want := map[string]int{"sq-coordinator": 2, "sq-broker": 3, "sq-tierer": 1, "sq-gateway": 2}
	if diff := cmp.Diff(want, count); diff != "" {
		t.Error(diff)
	}
}

func TestComposeSetsWhatProgramsKnow(t *testing.T) {
	programs, err := cluster.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	recipe, err := os.ReadFile(filepath.Join(programs.Root, "deploy", "docker", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	file := readCompose(t, programs.Root)
	for name, service := range file.Services {
		for _, needed := range service.DependsOn {
			if _, ok := file.Services[needed]; !ok {
				t.Errorf("%s depends on %s, which is no service", name, needed)
			}
		}
		for _, volume := range service.Volumes {
			if source, _, _ := strings.Cut(volume, ":"); !strings.HasPrefix(source, ".") && !declared(file, source) {
				t.Errorf("%s: volume %s is not declared", name, source)
			}
		}
		program, ok := strings.CutPrefix(service.Image, "seedqueue/")
		if !ok {
			continue
		}
		program, _, _ = strings.Cut(program, ":")
		if !strings.Contains(string(recipe), "AS "+program+"\n") {
			t.Errorf("%s: image %s is not built by the recipe", name, service.Image)
		}
		cmd := exec.CommandContext(t.Context(), programs.Path(program), "--print-config")
		cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
		for key, value := range service.Environment {
			cmd.Env = append(cmd.Env, key+"="+value)
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		for key, value := range service.Environment {
			setting := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(key, "SQ_"), "_", "-"))
			if strings.HasPrefix(key, "SQ_") && !strings.Contains(string(out), fmt.Sprintf("%s: ", setting)) {
				t.Errorf("%s: %s=%s has no effect:\n%s", name, key, value, out)
			}
		}
	}
}

func declared(file composeFile, volume string) bool {
	_, ok := file.Volumes[volume]
	return ok
}

func TestTiltfileNamesComposeServices(t *testing.T) {
	root := filepath.Join("..", "..")
	file := readCompose(t, root)
	tilt, err := (&syntax.FileOptions{}).Parse(filepath.Join(root, "Tiltfile"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	syntax.Walk(tilt, func(n syntax.Node) bool {
		if assign, ok := n.(*syntax.AssignStmt); ok {
			if list, ok := assign.RHS.(*syntax.ListExpr); ok {
				for _, entry := range list.List {
					named = append(named, entry.(*syntax.Literal).Value.(string))
				}
			}
		}
		if call, ok := n.(*syntax.CallExpr); ok && len(call.Args) > 0 {
			fn, isName := call.Fn.(*syntax.Ident)
			if arg, ok := call.Args[0].(*syntax.Literal); ok && isName && fn.Name == "dc_resource" {
				named = append(named, arg.Value.(string))
			}
		}
		return true
	})
	for name := range file.Services {
		if !slices.Contains(named, name) {
			t.Errorf("service %s is not a resource of the Tiltfile", name)
		}
	}
	for _, name := range named {
		if _, ok := file.Services[name]; !ok {
			t.Errorf("the Tiltfile names %s, which is no service", name)
		}
	}
}
