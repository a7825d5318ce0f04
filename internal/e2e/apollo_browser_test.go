package e2e

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"

	"byline/internal/servertest"
)

const apolloFolder = "examples/apollo"

// TestApolloExample_InBrowser uses the built page of examples/apollo: a new viewer joins, likes a post and comments on
// it, and sees a post and a comment of another user arrive.
func TestApolloExample_InBrowser(t *testing.T) {
	path := browserPath(t)
	dist := filepath.Join(os.Getenv(clientsEnv), strings.Repeat("../", strings.Count(clientsFolder, "/")+1), apolloFolder, "dist")
	if _, err := os.Stat(dist); err != nil {
		t.Fatal(err)
	}
	s := start(t, "--data", t.TempDir(), "--no-demo")
	gateway, err := url.Parse(s.Root)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/graphql", httputil.NewSingleHostReverseProxy(gateway))
	mux.Handle("/", http.FileServer(http.Dir(dist)))
	origin := httptest.NewServer(mux)
	t.Cleanup(origin.Close)

	s.Do("ada", createUser, map[string]any{"name": "ada"})
	s.Do("ada", createPost, map[string]any{"title": "Engines", "content": "x"})
	p := openPage(t, path, origin.URL)
	shown := func() string { return p.eval(`document.body.innerText`) }
	p.sees(shown, "Engines (0)", "Sign in")

	p.eval(`sessionStorage.setItem("token", "demo:newcomer"), ""`)
	p.do("load again", chromedp.Navigate(origin.URL))
	p.sees(shown, "Engines (0)", "Join")
	fill := func(xpath, text string) {
		t.Helper()
		p.do("fill "+xpath, chromedp.SendKeys(chromedp.Search(xpath), text))
	}
	fill(`//input[@name="username"]`, "newcomer")
	p.click(`//button[text()="Join"]`)
	p.sees(shown, "Signed in as newcomer")

	published := s.Do("ada", createPost, map[string]any{"title": "Looms", "content": "y"})
	id := servertest.At(t, published, "createPost.post.id")
	p.sees(shown, "Looms (0)")
	p.click(`//a[text()="Looms"]`)
	p.sees(shown, "0 comments", "Like (0)")
	p.click(`//button[.="Like (0)"]`)
	p.sees(shown, "Like (1)")
	fill(`//textarea`, "Well said.")
	p.click(`//button[text()="Comment"]`)
	p.sees(shown, "1 comments", "newcomer Well said.")
	s.Do("ada", `mutation($id: ID!) { createComment(input: {postId: $id, content: "Thanks."}) { comment { id } } }`,
		map[string]any{"id": id})
	p.sees(shown, "2 comments", "ada Thanks.", "newcomer Well said.", "Like (1)")
}

// TestApolloExample_AsDocumented: the page has the files of docs/graphql.md.
func TestApolloExample_AsDocumented(t *testing.T) {
	files := documentedFiles(t, "docs/graphql.md")
	for _, name := range []string{
		"codegen.mjs", "byline.ts", "apollo.ts", "documents.ts", "Feed.tsx", "Like.tsx", "CommentForm.tsx", "SignIn.tsx",
	} {
		folder := apolloFolder + "/src/"
		if name == "codegen.mjs" {
			folder = apolloFolder + "/"
		}
		b, err := os.ReadFile(servertest.Path(folder + name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(files[name], string(b)); diff != "" {
			t.Errorf("%s%s: %s", folder, name, diff)
		}
	}
}
