package graph

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// A front end that renders its pages on the server, without JavaScript: its forms write a post of two paragraphs and a
// comment of two lines. Browsers send the line breaks of a text area as CR LF.
func TestForms_WithoutJavaScript(t *testing.T) {
	_, gateway := liveBlog(t, Options{})
	pages := httptest.NewServer(formPages(gateway))
	t.Cleanup(pages.Close)
	submit := func(path string, form url.Values) (at, page string) {
		t.Helper()
		response, err := pages.Client().PostForm(pages.URL+path, form) // follows the redirect
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.Request.URL.Path, string(body)
	}
	shows := func(page string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(page, part) {
				t.Errorf("the page lacks %q: %s", part, page)
			}
		}
	}

	_, page := submit("/posts", url.Values{"Title": {" "}, "Content": {"First."}})
	shows(page, `<p role="alert">Title: must not be blank</p>`)
	at, page := submit("/posts", url.Values{"Title": {" By a form "}, "Content": {"First.\r\n\r\nSecond."}})
	shows(page, "<h1>By a form</h1>", "<p>First.</p>\n<p>Second.</p>")
	_, page = submit(at+"/comments", url.Values{"Content": {"- one\r\n- two"}})
	shows(page, "<p>Second.</p>", "<li>one</li>\n<li>two</li>")
}

// formPages returns the pages: the form of a post, and posts with the form of a comment.
func formPages(gateway *httptest.Server) http.Handler {
	page := template.Must(template.New("").Parse(`<!doctype html>
{{with .Problem}}<p role="alert">{{.}}</p>{{end}}
{{with .Post}}<h1>{{.Title}}</h1>{{.ContentHTML}}
{{range .Comments.Edges}}<article>{{.Node.ContentHTML}}</article>{{end}}
<form method="post" action="/posts/{{.ID}}/comments"><textarea name="Content"></textarea><button>Comment</button>
</form>{{else}}<form method="post" action="/posts"><input name="Title"><textarea name="Content"></textarea>
<button>Publish</button></form>{{end}}`))
	type post struct {
		ID, Title   string
		ContentHTML template.HTML
		Comments    struct {
			Edges []struct {
				Node struct{ ContentHTML template.HTML }
			}
		}
	}
	type result struct {
		Data struct {
			Post          *post
			CreatePost    struct{ Post post }
			CreateComment struct{ Post post }
		}
		Errors []struct {
			Message    string
			Extensions struct{ Field string }
		}
	}
	do := func(r *http.Request, query string, variables map[string]any) (out result, problem string) {
		body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
		if err != nil {
			return out, err.Error()
		}
		in, err := http.NewRequestWithContext(r.Context(), http.MethodPost, gateway.URL+"/graphql",
			bytes.NewReader(body))
		if err != nil {
			return out, err.Error()
		}
		in.Header.Set("Content-Type", "application/json")
		in.Header.Set("Authorization", "Bearer demo:ada")
		response, err := gateway.Client().Do(in)
		if err != nil {
			return out, err.Error()
		}
		defer response.Body.Close()
		if err := json.NewDecoder(response.Body).Decode(&out); err != nil {
			return out, err.Error()
		}
		for _, e := range out.Errors {
			label := strings.ToUpper(e.Extensions.Field[:1]) + e.Extensions.Field[1:]
			problem += label + ": " + e.Message
		}
		return out, problem
	}
	show := func(w http.ResponseWriter, p *post, problem string) {
		if err := page.Execute(w, struct {
			Post    *post
			Problem string
		}{p, problem}); err != nil {
			fmt.Fprintln(w, err)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /posts/{id}", func(w http.ResponseWriter, r *http.Request) {
		out, problem := do(r, `query($id: ID!) { post(id: $id) {
			id title contentHtml comments { edges { node { contentHtml } } } } }`,
			map[string]any{"id": r.PathValue("id")})
		show(w, out.Data.Post, problem)
	})
	mux.HandleFunc("POST /posts", func(w http.ResponseWriter, r *http.Request) {
		out, problem := do(r, `mutation($title: String!, $content: String!) {
			createPost(input: {title: $title, content: $content}) { post { id } } }`,
			map[string]any{"title": r.FormValue("Title"), "content": r.FormValue("Content")})
		if problem != "" {
			show(w, nil, problem)
			return
		}
		http.Redirect(w, r, "/posts/"+out.Data.CreatePost.Post.ID, http.StatusSeeOther)
	})
	mux.HandleFunc("POST /posts/{id}/comments", func(w http.ResponseWriter, r *http.Request) {
		out, problem := do(r, `mutation($id: ID!, $content: String!) {
			createComment(input: {postId: $id, content: $content}) { post { id title } } }`,
			map[string]any{"id": r.PathValue("id"), "content": r.FormValue("Content")})
		if problem != "" {
			show(w, &out.Data.CreateComment.Post, problem)
			return
		}
		http.Redirect(w, r, "/posts/"+r.PathValue("id"), http.StatusSeeOther)
	})
	return mux
}
