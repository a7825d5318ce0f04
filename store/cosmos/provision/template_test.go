package provision

import (
	"encoding/json"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// template is a database whose name each format must quote.
var template = DatabaseSpec{Name: "it's", MaxThroughput: 1000, Containers: []ContainerSpec{
	{Name: "posts", PartitionKey: "/postId", Indexed: []string{"/postId", "/type"},
		Composite: [][]string{{"/type", "/id"}}, TTL: true},
	{Name: "leases", PartitionKey: "/id"},
	{Name: "search", PartitionKey: "/decade", Indexed: []string{"/tags/[]"}, FullText: []string{"/text"}},
}}

// printed returns the template in a format.
func printed(t *testing.T, format string) string {
	t.Helper()
	text, err := template.Template(format)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// wantAsSpecified fails the test unless the definitions of the database and the containers are those of the
// template.
func wantAsSpecified(t *testing.T, database string, definitions []string) {
	t.Helper()
	if database != template.Name || len(definitions) != len(template.Containers) {
		t.Fatalf("database %q with %d containers", database, len(definitions))
	}
	for i, c := range template.Containers {
		var have azcosmos.ContainerProperties
		if err := json.Unmarshal([]byte(definitions[i]), &have); err != nil {
			t.Fatalf("%v in %s", err, definitions[i])
		}
		if d := c.compare(have); d != nil || have.ID != c.Name {
			t.Errorf("container %s: %q", have.ID, d)
		}
		want, err := json.Marshal(c.properties())
		if err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(have); err != nil || string(got) != string(want) {
			t.Errorf("got %s, want %s: %v", got, want, err)
		}
	}
}

func TestTemplate_ARM(t *testing.T) {
	var all []struct {
		Name       string
		Properties struct{ Resource json.RawMessage }
	}
	if err := json.Unmarshal([]byte(printed(t, "arm")), &all); err != nil {
		t.Fatal(err)
	}
	var database struct{ ID string }
	var definitions []string
	for i, r := range all {
		if i == 0 {
			if err := json.Unmarshal(r.Properties.Resource, &database); err != nil {
				t.Fatal(err)
			}
			continue
		}
		definitions = append(definitions, string(r.Properties.Resource))
	}
	wantAsSpecified(t, database.ID, definitions)
	if want := "[concat(parameters('accountName'), '/it''s/posts')]"; all[1].Name != want {
		t.Errorf("got name %s, want %s", all[1].Name, want)
	}
}

// TestTemplate_Bicep converts the objects of Bicep, which differ from JSON in quotes and commas, to JSON.
func TestTemplate_Bicep(t *testing.T) {
	text := printed(t, "bicep")
	var database struct{ ID string }
	var definitions []string
	for i, m := range regexp.MustCompile(`(?s)    resource: (\{.*?\n    \})`).FindAllStringSubmatch(text, -1) {
		object := strings.ReplaceAll(strings.ReplaceAll(m[1], `\'`, "\x00"), "'", `"`)
		object = regexp.MustCompile(`(?m)^( +)(\w+):`).ReplaceAllString(strings.ReplaceAll(object, "\x00", "'"),
			`$1"$2":`)
		object = regexp.MustCompile(`([^{\[])(\n +[^ }\]])`).ReplaceAllString(object, "$1,$2")
		if i > 0 {
			definitions = append(definitions, object)
		} else if err := json.Unmarshal([]byte(object), &database); err != nil {
			t.Fatalf("%v in %s", err, object)
		}
	}
	wantAsSpecified(t, database.ID, definitions)
	if !strings.Contains(text, `name: 'it\'s'`) {
		t.Errorf("the name of the database is missing:\n%s", text)
	}
}

// TestTemplate_CLI runs the commands in a shell in which az prints its arguments.
func TestTemplate_CLI(t *testing.T) {
	cmd := exec.Command("sh", "-ec", "az() { printf '%s\\n' \"$@\" --end; }\n"+printed(t, "az"))
	cmd.Env = []string{"ACCOUNT=account one", "RESOURCE_GROUP=group"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	database := ""
	var definitions []string
	for command := range strings.SplitSeq(strings.TrimSuffix(string(out), "\n--end\n"), "\n--end\n") {
		words := strings.Split(command, "\n")
		flags := map[string]string{}
		for i := 4; i+1 < len(words); i += 2 {
			flags[words[i]] = words[i+1]
		}
		if words[0] != "cosmosdb" || words[1] != "sql" || words[3] != "create" || len(words)%2 != 0 ||
			flags["--account-name"] != "account one" || flags["--resource-group"] != "group" {
			t.Fatalf("az %q", words)
		}
		if words[2] == "database" {
			database = flags["--name"]
			if flags["--max-throughput"] != "1000" {
				t.Errorf("database: %q", flags)
			}
			continue
		}
		more := ""
		if v, ok := flags["--ttl"]; ok {
			more = `"defaultTtl":` + v + `,`
		}
		if policy, ok := flags["--full-text-policy"]; ok {
			more += `"fullTextPolicy":` + policy + `,`
		}
		definitions = append(definitions,
			`{"id":"`+flags["--name"]+`",`+more+`"partitionKey":{"kind":"Hash","paths":["`+
				flags["--partition-key-path"]+`"],"version":`+
				flags["--partition-key-version"]+`},"indexingPolicy":`+flags["--idx"]+`}`)
		if flags["--database-name"] != database {
			t.Errorf("container %s in database %q", flags["--name"], flags["--database-name"])
		}
	}
	wantAsSpecified(t, database, definitions)
}
