package e2e

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"golang.org/x/net/html"
	"golang.org/x/sync/errgroup"

	"byline/internal/servertest"
	"byline/internal/testkit"
	"byline/store/blog"
)

// TestSite_Hostile has values that would break out of every context, in every text of posts and their authors. Nothing
// of them is executable on a page. Feeds, front matter and oEmbed responses are well-formed, and have them unchanged.
func TestSite_Hostile(t *testing.T) {
	testkit.Heavy(t)
	raw, err := os.ReadFile("testdata/hostile.json")
	var values []string
	if err == nil {
		err = json.Unmarshal(raw, &values)
	}
	if err != nil || len(values) < 500 {
		t.Fatalf("%d values: %v", len(values), err)
	}
	s := startSite(t)
	posts := make([]hostilePost, len(values))
	var publishing errgroup.Group
	publishing.SetLimit(16)
	for i, value := range values {
		publishing.Go(func() (err error) {
			posts[i], err = publishHostile(s, fmt.Sprint("hostile-", i), value)
			return err
		})
	}
	if err := publishing.Wait(); err != nil {
		t.Fatal(err)
	}
	visitHarmless(t, s, "/")
	for path := "/tags/hostile"; path != ""; {
		path = strings.TrimPrefix(visitHarmless(t, s, path).links["next"], siteURL)
	}
	found := 0 // every post, by its tag, with the text that surrounds it
	for path := "/search?order=newest&q=hostile"; path != ""; {
		page := visitHarmless(t, s, path)
		found += strings.Count(strings.Join(page.hrefs, "\n"), "/posts/")
		path = strings.TrimPrefix(page.links["next"], siteURL)
	}
	if found != len(posts) {
		t.Errorf("a search finds %d posts of %d", found, len(posts))
	}
	entries := map[string][3]string{} // titles, names and descriptions of covers, by address
	for path := "/tags/hostile/feed.atom"; path != ""; {
		feed := visitFeed(t, s, path)
		for _, e := range feed.Entries {
			entries[e.Links[0].Href] = [3]string{e.Title, e.Author, e.Links[1].Title}
		}
		path = feed.next()
	}
	for i, post := range posts {
		checkHostile(t, s, values[i], post, entries)
	}
}

// hostilePost is a post of which all texts, and those of its author, are a hostile value.
type hostilePost struct {
	username   string
	tags       []string
	UpdateUser struct {
		User struct{ DisplayName, Bio string }
	}
	CreatePost struct {
		Post struct {
			Slug, Title, Content string
			CoverImage           struct{ Alt string }
		}
	}
}

// oneLine replaces the line breaks that names and titles must not have.
var oneLine = strings.NewReplacer("\n", " ", "\u2028", " ", "\u2029", " ")

// publishHostile has a new user publish a post, both with a value in all texts.
func publishHostile(s *servertest.Instance, user, value string) (hostilePost, error) {
	title := oneLine.Replace(value)
	name := []rune(title)
	post := hostilePost{username: user, tags: []string{"hostile"}}
	if tag, _, err := blog.ParseTag(value); err == nil {
		post.tags = append(post.tags, tag)
	}
	response, err := s.Post(user, `mutation(
			$user: String!, $name: String!, $title: String!, $text: String!, $content: String!, $tags: [String!]
		) {
			createUser(input: {username: $user}) { user { id } }
			updateUser(input: {displayName: $name, bio: $text}) { user { displayName bio } }
			createPost(input: {title: $title, content: $content, tags: $tags,
				coverImage: {url: "https://elsewhere.example/a.png", alt: $title}}) {
				post { slug title content coverImage { alt } }
			}
		}`, map[string]any{"user": user, "name": string(name[:min(len(name), blog.MaxDisplayName)]), "title": title,
		"content": strings.ReplaceAll("V\n\n# V\n\n[x](V)\n\n![V](x \"V\")\n\n`V`\n\n> V\n\n<p title='V'>V", "V", value),
		"text":    value, "tags": post.tags})
	if err == nil && response.Errors != nil {
		err = fmt.Errorf("%q: %v", value, response.Errors)
	}
	if err != nil {
		return post, err
	}
	raw, err := json.Marshal(response.Data)
	if err == nil {
		err = json.Unmarshal(raw, &post)
	}
	return post, err
}

// checkHostile checks what shows a post and its author, with the texts of the feed.
func checkHostile(
	t *testing.T, s *servertest.Instance, value string, of hostilePost, entries map[string][3]string,
) {
	t.Helper()
	author, post := of.UpdateUser.User, of.CreatePost.Post
	path := "/posts/" + url.PathEscape(post.Slug)
	onPost, onAuthor := visitHarmless(t, s, path), visitHarmless(t, s, "/authors/"+of.username)
	entry := entries[siteURL+path]
	_, markdown := visit(t, s, path+".md")
	parts := strings.SplitN(markdown, "---\n", 3)
	var front struct {
		Title, Author string
		Tags          []string
		CoverAlt      string `yaml:"coverAlt"`
	}
	if err := yaml.Unmarshal([]byte(parts[1]), &front); err != nil {
		t.Errorf("%q: front matter: %v", value, err)
	}
	_, body := visit(t, s, "/oembed?"+url.Values{"url": {siteURL + path}}.Encode())
	var embed struct {
		Title  string `json:"title"`
		Author string `json:"author_name"`
	}
	if err := json.Unmarshal([]byte(body), &embed); err != nil {
		t.Errorf("%q: oEmbed: %v", value, err)
	}
	inXML := strings.NewReplacer("\uFFFE", "", "\uFFFF", "").Replace // XML cannot have these
	linked := onAuthor.linked[0]["mainEntity"].(map[string]any)
	for what, pair := range map[string][2]string{
		"title":              {onPost.title, post.Title + " · The blog"},
		"og:title":           {onPost.meta["og:title"], post.Title},
		"headline":           {fmt.Sprint(onPost.linked[0]["headline"]), post.Title},
		"og:image:alt":       {onPost.meta["og:image:alt"], post.CoverImage.Alt},
		"caption":            {fmt.Sprint(onPost.linked[0]["image"].(map[string]any)["caption"]), post.CoverImage.Alt},
		"cover in YAML":      {front.CoverAlt, post.CoverImage.Alt},
		"name of the author": {fmt.Sprint(linked["name"]), author.DisplayName},
		"biography":          {fmt.Sprint(linked["description"]), author.Bio},
		"description":        {onAuthor.meta["description"], author.Bio},
		"title in Atom":      {entry[0], inXML(post.Title)},
		"author in Atom":     {entry[1], inXML(author.DisplayName)},
		"cover in Atom":      {entry[2], inXML(post.CoverImage.Alt)},
		"title in YAML":      {front.Title, post.Title},
		"author in YAML":     {front.Author, author.DisplayName},
		"tags in YAML":       {fmt.Sprint(front.Tags), fmt.Sprint(of.tags)},
		"Markdown":           {strings.TrimPrefix(parts[2], "\n"), post.Content},
		"title in oEmbed":    {embed.Title, post.Title},
		"author in oEmbed":   {embed.Author, author.DisplayName},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%q: %s: got %q, want %q", value, what, pair[0], pair[1])
		}
	}
}

// visitHarmless returns a page in which nothing is executable but the front end's two scripts. Only that of searches
// has a form.
func visitHarmless(t *testing.T, s *servertest.Instance, path string) webPage {
	t.Helper()
	resp, body := visit(t, s, path)
	document, err := html.Parse(strings.NewReader(body))
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%s: %d %v", path, resp.StatusCode, err)
	}
	scripts := 0
	for n := range document.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		switch n.Data {
		case "script":
			if !slices.ContainsFunc(n.Attr, func(a html.Attribute) bool {
				return a.Key == "type" && strings.HasPrefix(a.Val, "application/")
			}) {
				scripts++
			}
		case "form":
			if action := n.Attr[slices.IndexFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "action" })].Val; action != "/search" || !strings.HasPrefix(path, action) {
				t.Errorf("%s: a form with the action %q", path, action)
			}
		case "svg", "math", "iframe", "object", "embed", "base", "style":
			t.Errorf("%s: an element %s", path, n.Data)
		}
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") || (a.Key == "href" || a.Key == "src") && !isHarmless(a.Val) {
				t.Errorf("%s: <%s %s=%q>", path, n.Data, a.Key, a.Val)
			}
		}
	}
	if scripts != 2 {
		t.Errorf("%s: %d scripts", path, scripts)
	}
	return parsePage(t, body)
}

// isHarmless reports whether the link to an address executes nothing.
func isHarmless(address string) bool {
	u, err := url.Parse(address)
	return err == nil && slices.Contains([]string{"", "http", "https", "mailto"}, u.Scheme)
}

// hostileFeed is what a feed has of hostile texts.
type hostileFeed struct {
	XMLName xml.Name `xml:"http://www.w3.org/2005/Atom feed"`
	Links   []struct {
		Rel  string `xml:"rel,attr"`
		Href string `xml:"href,attr"`
	} `xml:"link"`
	Entries []struct {
		Title string `xml:"title"`
		Links []struct {
			Href  string `xml:"href,attr"`
			Title string `xml:"title,attr"`
		} `xml:"link"`
		Author string `xml:"author>name"`
	} `xml:"entry"`
}

// visitFeed returns a feed that is well-formed.
func visitFeed(t *testing.T, s *servertest.Instance, path string) (feed hostileFeed) {
	t.Helper()
	_, body := visit(t, s, path)
	if err := xml.Unmarshal([]byte(body), &feed); err != nil {
		t.Errorf("%s: %v", path, err)
	}
	return feed
}

// next returns the path of the next page of the feed, "" at its end.
func (f hostileFeed) next() string {
	for _, l := range f.Links {
		if l.Rel == "next" {
			return strings.TrimPrefix(l.Href, siteURL)
		}
	}
	return ""
}
