package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/internal/servertest"
	"byline/internal/testkit"
	"byline/store/blog"
	"byline/store/emulator"
)

// deployStub replaces the programs that need Azure or a registry, and the build of the image, which .ci/image runs.
// It logs its arguments, and prints values that the test has set.
const deployStub = `#!/bin/sh
echo "${0##*/} $*" >>"$TEST_STUBS"
case "$*" in
*outputs.url.value*) echo "$TEST_URL" ;;
*documentEndpoint*) echo "$COSMOS_ENDPOINT" ;;
*get-access-token*) echo "$TEST_TOKEN" ;;
*) echo stub ;;
esac
`

// TestDeployDocument_CommandsRun runs the commands of docs/deploy.md, those of a section in one shell.
func TestDeployDocument_CommandsRun(t *testing.T) {
	testkit.Heavy(t)
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("needs curl")
	}
	document, err := os.ReadFile(servertest.Path("docs/deploy.md"))
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	programs := map[string]string{"byline": fmt.Sprintf("#!/bin/sh\ncd %s\nexec env %s %s \"$@\"\n",
		servertest.Path(""), servertest.ProgramEnv, executable)}
	for _, name := range []string{"az", "crane", "go"} {
		programs[name] = deployStub
	}
	for name, script := range programs {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	unchanged := func(*azcosmos.ContainerProperties) {}
	deployed := func(a *entraAccount) (root string) { return a.serve(a.deploy(unchanged)[3:]...).Root }
	sections := map[string]struct {
		before func(*entraAccount) (root string)
		prints []string // responses of the server
		stubs  int      // number of calls of stubs
	}{
		"From an empty subscription to a query": {deployed,
			[]string{`{"data":{"feed":{"edges":[]}}}`, `{"data":{"createUser":{"user":{"username":"ada"}}}}`}, 12},
		"Signing in as an operator": {deployed, nil, 4},
		"Upgrades and rollbacks":    {deployed, nil, 1},
		"Scaling":                   {deployed, nil, 1},
		"Backup and restore":        {restored, nil, 4},
		"Containers":                {func(*entraAccount) string { return "" }, nil, 6},
	}
	block := regexp.MustCompile("(?s)```sh\n(.*?)```")
	for _, section := range strings.Split(string(document), "\n## ")[1:] {
		title, body, _ := strings.Cut(section, "\n")
		var script strings.Builder
		for _, b := range block.FindAllStringSubmatch(body, -1) {
			script.WriteString(b[1])
		}
		s, ok := sections[title]
		delete(sections, title)
		if ok != (script.Len() > 0) {
			t.Errorf("section %q: has commands: %t, is known here: %t", title, script.Len() > 0, ok)
		}
		if !ok {
			continue
		}
		t.Run(title, func(t *testing.T) {
			a := newEntraAccount(t)
			root := s.before(a)
			text := strings.NewReplacer("https://<account>.documents.azure.com", a.endpoint,
				"https://<restored>.documents.azure.com", a.endpoint,
				"<account>", "account", "<restored>", "restored", "<region>", "westeurope", "<registry>", "registry",
				"<group>", "byline",
				"<address>", "operator@example.com", "<issuer>", "example.com", "<audience>", "byline", "<key>",
				emulator.WellKnownKey).Replace(script.String())
			if left := regexp.MustCompile(`<[a-z]+>`).FindString(text); left != "" {
				t.Fatalf("the test has no value for %s", left)
			}
			token := ""
			if a.provider != nil {
				token = testkit.Secret(a.provider.Token(t, nil))
			}
			stubs := filepath.Join(t.TempDir(), "stubs")
			cmd := exec.Command("sh", "-euc", text)
			cmd.Dir = t.TempDir()
			cmd.Env = append(append(os.Environ(), a.environment...),
				"PATH="+bin+":"+os.Getenv("PATH"), "ACCOUNT=account", "TEST_STUBS="+stubs, "TEST_URL="+root,
				"TEST_TOKEN="+token)
			var out, log output
			cmd.Stdout, cmd.Stderr = &out, &log
			if err := cmd.Run(); err != nil {
				t.Errorf("%v:\n%s%s", err, &out, &log)
			}
			if responses := regexp.MustCompile(`(?m)^\{.*\}$`).FindAllString(out.String(),
				-1); !slices.Equal(responses, s.prints) {
				t.Errorf("the responses are %q, want %q", responses, s.prints)
			}
			for _, response := range s.prints {
				if !strings.Contains(body, "`"+response+"`") {
					t.Errorf("the document does not have the response %s", response)
				}
			}
			called, err := os.ReadFile(stubs)
			if err != nil {
				t.Fatal(err)
			}
			calls := strings.Split(strings.TrimSpace(string(called)), "\n")
			for _, call := range calls {
				t.Log("not run here:", call)
				checkDeployment(t, call)
			}
			if len(calls) != s.stubs {
				t.Errorf("%d commands are not run, want %d", len(calls), s.stubs)
			}
		})
	}
	for title := range sections {
		t.Errorf("the document has no section %q", title)
	}
}

// TestDeployDocument_Button: the button deploys the template.
func TestDeployDocument_Button(t *testing.T) {
	document, err := os.ReadFile(servertest.Path("docs/deploy.md"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`\(https://portal\.azure\.com/#create/Microsoft\.Template/uri/([^)]+)\)`).FindSubmatch(
		document)
	if m == nil {
		t.Fatal("no button")
	}
	address, err := url.PathUnescape(string(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	file, ok := strings.CutPrefix(address, "https://raw.githubusercontent.com/OWNER/byline/main/")
	if _, err := os.Stat(servertest.Path(file)); !ok || err != nil {
		t.Errorf("the button deploys %s: %v", address, err)
	}
}

// checkDeployment checks the parameters of a deployment of the template.
func checkDeployment(t *testing.T, call string) {
	t.Helper()
	if !strings.HasPrefix(call, "az deployment group create ") {
		return
	}
	words := strings.Fields(call)
	text, err := os.ReadFile(servertest.Path(words[slices.Index(words, "--template-file")+1]))
	if err != nil {
		t.Fatal(err)
	}
	var template struct {
		Parameters map[string]struct{ DefaultValue any }
	}
	if err := json.Unmarshal(text, &template); err != nil {
		t.Fatal(err)
	}
	for _, word := range words[slices.Index(words, "--parameters")+1:] {
		name, _, _ := strings.Cut(word, "=")
		if _, ok := template.Parameters[name]; !ok {
			t.Errorf("the template has no parameter %s", name)
		}
		delete(template.Parameters, name)
	}
	_, newAccount := template.Parameters["accountName"]
	if _, unset := template.Parameters["maxThroughput"]; unset && !newAccount {
		t.Error("the deployment resets maxThroughput of an existing account to the default")
	}
	for name, p := range template.Parameters {
		if p.DefaultValue == nil {
			t.Errorf("the parameter %s is missing", name)
		}
	}
}

// restored makes an account like a restored one, and serves it: it has the items of another account, including the
// checkpoints of the projections, but an earlier state of the feed, here an empty one.
func restored(a *entraAccount) (root string) {
	a.t.Helper()
	unchanged := func(*azcosmos.ContainerProperties) {}
	original := newEntraAccount(a.t)
	original.deploy(unchanged)
	original.succeed(original.command("seed", "--users", "1"))
	original.succeed(original.command("views", "rebuild")) // saves checkpoints
	args := a.deploy(unchanged)
	ctx := a.t.Context()
	from, to := original.client(), a.client()
	for name, partition := range map[string]string{blog.UsersContainer: "userId", blog.PostsContainer: "postId",
		blog.LeasesContainer: "id"} {
		source, err := from.NewContainer("blog", name)
		if err != nil {
			a.t.Fatal(err)
		}
		target, err := to.NewContainer("blog", name)
		if err != nil {
			a.t.Fatal(err)
		}
		n := 0
		for pager := source.NewQueryItemsPager("SELECT * FROM c", azcosmos.NewPartitionKey(), nil); pager.More(); {
			page, err := pager.NextPage(ctx)
			if err != nil {
				a.t.Fatal(err)
			}
			for _, item := range page.Items {
				if err := copyItem(ctx, target, partition, item); err != nil {
					a.t.Fatal(err)
				}
				n++
			}
		}
		if n == 0 {
			a.t.Errorf("container %s is empty", name)
		}
	}
	if out, _ := a.fail("views", "verify", "--settle", "0s"); !strings.Contains(out, "feed entry") {
		a.t.Errorf("verify of the restored account prints %s", out)
	}
	return a.serve(args[3:]...).Root
}

func copyItem(ctx context.Context, to *azcosmos.ContainerClient, partition string, item []byte) error {
	var properties map[string]json.RawMessage
	if err := json.Unmarshal(item, &properties); err != nil {
		return err
	}
	var key string
	if err := json.Unmarshal(properties[partition], &key); err != nil {
		return err
	}
	for _, name := range []string{"_rid", "_self", "_etag", "_attachments", "_ts"} {
		delete(properties, name)
	}
	item, err := json.Marshal(properties)
	if err == nil {
		_, err = to.CreateItem(ctx, azcosmos.NewPartitionKeyString(key), item, nil)
	}
	return err
}
