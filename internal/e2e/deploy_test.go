package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/internal/oidctest"
	"byline/internal/servertest"
	"byline/internal/testkit"
)

// TestServe_EntraIdentityOnTemplate: the server starts on the containers of the template; if they differ, it names
// the missing property, as provision --check does.
func TestServe_EntraIdentityOnTemplate(t *testing.T) {
	testkit.Heavy(t)
	for name, tt := range map[string]struct {
		change func(*azcosmos.ContainerProperties)
		want   string // "" if it serves
	}{
		"unchanged": {func(*azcosmos.ContainerProperties) {}, ""},
		"no composite indexes": {func(p *azcosmos.ContainerProperties) {
			p.IndexingPolicy.CompositeIndexes = nil
		}, "the composite index /postId, /type, /creationDate, /id is missing, so sorted queries would fail"},
		"no time to live": {func(p *azcosmos.ContainerProperties) {
			p.DefaultTimeToLive = nil
		}, "time to live is off, so deleted items would stay"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newEntraAccount(t)
			args := a.deploy(tt.change)
			if tt.want == "" {
				a.succeed(a.command("provision", "--check"))
				if !slices.Equal(args[:3], []string{"serve", "--listen", ":8080"}) {
					t.Fatalf("arguments %q", args)
				}
				i := a.serve(args[3:]...) // on a free port
				if strings.Contains(i.Log.String(), "unknown environment variables") ||
					!strings.HasPrefix(i.Log.String(), `{"time":`) {
					t.Errorf("the environment of the template: %s", i.Log)
				}
				response, err := http.Post(i.Root+"/graphql", "application/json",
					strings.NewReader(`{"query":"{ feed { edges { node { id } } } }"}`))
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				if body, err := io.ReadAll(response.Body); err != nil ||
					strings.TrimSpace(string(body)) != `{"data":{"feed":{"edges":[]}}}` {
					t.Errorf("the feed is %s: %v", body, err)
				}
				return
			}
			if _, line := a.fail("serve", "--listen", "localhost:0"); !strings.Contains(line,
				"container posts: "+tt.want) {
				t.Errorf("serve: %s", line)
			}
			out, line := a.fail("provision", "--check")
			if !regexp.MustCompile(`(?m)^\| posts +\|.*\| ` + regexp.QuoteMeta(tt.want) +
				` +\| no +\|$`).MatchString(out) {
				t.Errorf("provision --check: %s%s", out, line)
			}
		})
	}
}

// deploy creates the database and the containers of the template, as Azure Resource Manager does. It returns
// the arguments of the program, and adds its environment to that of later commands, with the values of this account
// where only Azure knows them.
func (a *entraAccount) deploy(change func(*azcosmos.ContainerProperties)) (args []string) {
	a.t.Helper()
	client := a.client()
	a.provider = oidctest.New(a.t)
	text, err := os.ReadFile(servertest.Path("deploy/azure/azuredeploy.json"))
	if err != nil {
		a.t.Fatal(err)
	}
	var template struct {
		Parameters map[string]struct{ DefaultValue any }
		Resources  []struct {
			Type       string
			Properties struct {
				Resource json.RawMessage
				Template struct {
					Containers []struct {
						Args []string
						Env  []struct{ Name, Value string }
					}
				}
			}
		}
	}
	if err := json.Unmarshal(text, &template); err != nil {
		a.t.Fatal(err)
	}
	var db *azcosmos.DatabaseClient
	for _, r := range template.Resources {
		switch r.Type {
		case "Microsoft.DocumentDB/databaseAccounts/sqlDatabases":
			var properties azcosmos.DatabaseProperties
			if err = json.Unmarshal(r.Properties.Resource, &properties); err == nil {
				_, err = client.CreateDatabase(a.t.Context(), properties, nil)
			}
			if err == nil {
				db, err = client.NewDatabase(properties.ID)
			}
		case "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers":
			var properties azcosmos.ContainerProperties
			if err = json.Unmarshal(r.Properties.Resource, &properties); err == nil {
				change(&properties)
				_, err = db.CreateContainer(a.t.Context(), properties, nil)
			}
		case "Microsoft.App/containerApps":
			c := r.Properties.Template.Containers[0]
			args = c.Args
			for _, v := range c.Env {
				parameter := regexp.MustCompile(`^\[parameters\('(\w+)'\)\]$`).FindStringSubmatch(v.Value)
				switch {
				case v.Name == "BYLINE_METRICS_LISTEN": // on a free port
					a.environment = append(a.environment, v.Name+"=localhost:0")
				case parameter == nil && !strings.HasPrefix(v.Value, "["):
					a.environment = append(a.environment, v.Name+"="+v.Value)
				case parameter == nil: // the account and the identity
				case parameter[1] == "authIssuer":
					a.environment = append(a.environment, v.Name+"="+a.provider.URL)
				case parameter[1] == "authAudience":
					a.environment = append(a.environment, v.Name+"=byline")
				default:
					a.environment = append(a.environment,
						fmt.Sprint(v.Name, "=", template.Parameters[parameter[1]].DefaultValue))
				}
			}
		}
		if err != nil {
			a.t.Fatal(err)
		}
	}
	return args
}
