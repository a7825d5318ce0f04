package store_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/projection"
)

// The tests of this file fill every field of a post or of an input by reflection, so that they fail for a field that
// was added in one place and forgotten in another.

// fieldName returns the name of an input field in errors.
func fieldName(f reflect.StructField) string {
	for _, t := range blog.PostTexts {
		if t.Field == f.Name {
			return t.InputPath()
		}
	}
	return strings.ToLower(f.Name)
}

// inputFields returns the fields of an input that a client chooses.
func inputFields(t *testing.T, input reflect.Type, except ...string) (all []reflect.StructField) {
	t.Helper()
fields:
	for _, f := range reflect.VisibleFields(input) {
		for _, name := range except {
			if f.Name == name {
				continue fields
			}
		}
		if !slices.Contains([]reflect.Type{reflect.TypeFor[string](), reflect.TypeFor[*string](), textList,
			reflect.TypeFor[*[]string]()}, f.Type) {
			t.Fatalf("%s.%s: set fields of type %s, too", input.Name(), f.Name, f.Type)
		}
		all = append(all, f)
	}
	return all
}

var textList = reflect.TypeFor[[]string]()

// set sets a text field, a list with one text, or a pointer to one.
func set(field reflect.Value, text string) {
	switch list := []string{text}; field.Type() {
	case textList:
		field.Set(reflect.ValueOf(list))
	case reflect.TypeFor[*[]string]():
		field.Set(reflect.ValueOf(&list))
	case reflect.TypeFor[*string]():
		field.Set(reflect.ValueOf(&text))
	default:
		field.SetString(text)
	}
}

// valid returns a text that a field may have: a tag has no spaces and no upper case, a URL has a host.
func valid(f reflect.StructField, text string) string {
	switch word := strings.ReplaceAll(text, " ", "-"); f.Name {
	case "Tags":
		return strings.ToLower(word)
	case "CanonicalURL", "CoverURL":
		return "https://elsewhere.example/" + word
	}
	return text
}

// fieldsOf returns the fields of a post as JSON, by name, and those without a property.
func fieldsOf(t *testing.T, p *blog.Post) map[string]string {
	all := map[string]string{}
	v := reflect.ValueOf(*p)
	for _, f := range reflect.VisibleFields(v.Type()) {
		all[f.Name] = jsonOf(t, v.FieldByIndex(f.Index).Interface())
	}
	return all
}

// Each field of a new post and of an edit is validated, stored, compared with that of an earlier attempt with the same
// key, and shown in lists.
func TestPostFields_Inputs(t *testing.T) {
	testkit.Heavy(t)
	w := newWorld(t)
	ada := w.AddUser("ada")
	stop := w.Start()
	defer stop()
	is := func(what string, p *blog.Post, name, want string) {
		t.Helper()
		got := reflect.ValueOf(*p).FieldByName(name)
		if got.IsValid() && got.Type() == textList && got.Len() == 1 {
			got = got.Index(0)
		}
		if !got.IsValid() || got.String() != want {
			t.Errorf("%s: %s is %v, want %s", what, name, got, want)
		}
	}
	everywhere := func(what string, p *blog.Post, name, want string) {
		t.Helper()
		is(what, p, name, want)
		read, err := w.Post(t.Context(), p.ID)
		if err != nil {
			t.Fatal(err)
		}
		is(what+", read again", read, name, want)
		testkit.Until(t, w.CaughtUp)
		for list, posts := range map[string][]*blog.Post{"the feed": w.AllFeed(),
			"the author's posts": w.AllUserPosts(ada)} {
			for _, listed := range posts {
				if listed.ID == p.ID {
					is(what+", in "+list, listed, name, want)
				}
			}
		}
	}
	wantRefused := func(err error, f reflect.StructField) {
		t.Helper()
		if blog.CodeOf(err) != blog.Invalid || !strings.Contains(err.Error(), fieldName(f)) {
			t.Errorf("a long %s: %v", f.Name, err)
		}
	}
	for _, f := range inputFields(t, reflect.TypeFor[store.NewPost](), "AuthorID", "Key") {
		create := func(text string) (*blog.Post, error) {
			n := store.NewPost{AuthorID: ada.UserID, Title: "title", Content: "content", Key: f.Name}
			set(reflect.ValueOf(&n).Elem().FieldByIndex(f.Index), text)
			return w.CreatePost(t.Context(), n)
		}
		_, err := create(strings.Repeat("x", 200_000))
		wantRefused(err, f)
		p, err := create(valid(f, "new "+f.Name))
		if err != nil {
			t.Fatal(err)
		}
		everywhere("a new post", p, f.Name, valid(f, "new "+f.Name))
		if _, err := create(valid(f, "another "+f.Name)); blog.CodeOf(err) != blog.Conflict {
			t.Errorf("another %s with the same key: %v", f.Name, err)
		}
	}
	for _, f := range inputFields(t, reflect.TypeFor[store.PostEdit](), "Version") {
		p := w.AddPost(ada, "Post")
		edit := func(text string) (*blog.Post, error) {
			var e store.PostEdit
			set(reflect.ValueOf(&e).Elem().FieldByIndex(f.Index), text)
			return w.EditPost(t.Context(), ada.UserID, p.ID, e)
		}
		_, err := edit(strings.Repeat("x", 200_000))
		wantRefused(err, f)
		edited, err := edit(valid(f, "edited "+f.Name))
		if err != nil {
			t.Fatal(err)
		}
		everywhere("an edited post", edited, f.Name, valid(f, "edited "+f.Name))
	}
}

// Each field of a new draft and of an edit of a draft is validated, stored, compared with that of an earlier attempt
// with the same key, shown in lists, and published.
func TestPostFields_Drafts(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	is := func(what string, p *blog.Post, name, want string) {
		t.Helper()
		got := reflect.ValueOf(*p).FieldByName(name)
		if got.Type() == textList && got.Len() == 1 {
			got = got.Index(0)
		}
		if got.String() != want {
			t.Errorf("%s: %s is %v, want %s", what, name, got, want)
		}
	}
	everywhere := func(what string, p *blog.Post, name, want string) {
		t.Helper()
		is(what, p, name, want)
		is(what+", read again", w.draft(ada, p.ID), name, want)
		page, err := w.UserDrafts(t.Context(), ada.UserID, store.Paging{First: 1})
		if err != nil {
			t.Fatal(err)
		}
		is(what+", in the list", page.Items[0], name, want)
	}
	for _, f := range inputFields(t, reflect.TypeFor[store.NewPost](), "AuthorID", "Key") {
		create := func(text string) (*blog.Post, error) {
			n := store.NewPost{AuthorID: ada.UserID, Title: "title", Content: "content", Key: f.Name}
			set(reflect.ValueOf(&n).Elem().FieldByIndex(f.Index), text)
			return w.CreateDraft(t.Context(), n)
		}
		if _, err := create(strings.Repeat("x", 200_000)); blog.CodeOf(err) != blog.Invalid {
			t.Errorf("a long %s: %v", f.Name, err)
		}
		p, err := create(valid(f, "new "+f.Name))
		if err != nil {
			t.Fatal(err)
		}
		everywhere("a new draft", p, f.Name, valid(f, "new "+f.Name))
		if _, err := create(valid(f, "another "+f.Name)); blog.CodeOf(err) != blog.Conflict {
			t.Errorf("another %s with the same key: %v", f.Name, err)
		}
		if p, err = w.PublishPost(t.Context(), ada.UserID, p.ID); err != nil {
			t.Fatal(err)
		}
		is("the published draft", w.post(p.ID), f.Name, valid(f, "new "+f.Name))
	}
	for _, f := range inputFields(t, reflect.TypeFor[store.PostEdit](), "Version") {
		p, err := w.CreateDraft(t.Context(), store.NewPost{AuthorID: ada.UserID, Title: "title", Content: "content"})
		if err != nil {
			t.Fatal(err)
		}
		edit := func(text string) (*blog.Post, error) {
			var e store.PostEdit
			set(reflect.ValueOf(&e).Elem().FieldByIndex(f.Index), text)
			return w.EditPost(t.Context(), ada.UserID, p.ID, e)
		}
		if _, err := edit(strings.Repeat("x", 200_000)); blog.CodeOf(err) != blog.Invalid {
			t.Errorf("a long %s: %v", f.Name, err)
		}
		edited, err := edit(valid(f, "edited "+f.Name))
		if err != nil {
			t.Fatal(err)
		}
		everywhere("an edited draft", edited, f.Name, valid(f, "edited "+f.Name))
	}
}

// A post whose edit had an unknown outcome is edited only if it has each field of the edit.
func TestPostFields_IsEdited(t *testing.T) {
	date := blog.Date("2026-01-01T00:00:00.000Z")
	for _, f := range inputFields(t, reflect.TypeFor[store.PostEdit](), "Version") {
		var e store.PostEdit
		set(reflect.ValueOf(&e).Elem().FieldByIndex(f.Index), "edited")
		p := &blog.Post{UpdatedAt: &date}
		if store.IsEdited(p, date, e) {
			t.Errorf("a post without the %s of an edit counts as edited", f.Name)
		}
		set(reflect.ValueOf(p).Elem().FieldByName(f.Name), "edited")
		if !store.IsEdited(p, date, e) {
			t.Errorf("a post with the %s of an edit does not count as edited", f.Name)
		}
	}
}

// filledPost returns a post with a value of its own in every field that a summary has.
func filledPost(t *testing.T, ada *blog.User) *blog.Post {
	t.Helper()
	p := &blog.Post{ID: "filled", Byline: ada.Byline, CreatedAt: ada.CreatedAt, Revision: 3}
	v := reflect.ValueOf(p).Elem()
	for i, f := range reflect.VisibleFields(v.Type()) {
		switch field := v.FieldByIndex(f.Index); {
		// what the post is is not stored in summaries
		case !field.IsZero() || f.Type.Kind() == reflect.Bool || f.Name == "FormerTags":
		case f.Type == reflect.TypeFor[*blog.Date]():
			d := ada.CreatedAt
			field.Set(reflect.ValueOf(&d))
		case f.Type.Kind() == reflect.String:
			field.SetString("filled " + f.Name)
		case f.Type == textList:
			field.Set(reflect.ValueOf([]string{"filled"}))
		case f.Type.Kind() == reflect.Int32:
			field.SetInt(int64(1000 + i))
		case f.Type == reflect.TypeFor[*blog.Derived](): // no property
		default:
			t.Fatalf("fill fields of type %s, too", f.Type)
		}
	}
	return p
}

// A summary that replaces an older one, and is read by a list, has every field of its post; and so has the export.
func TestPostFields_Summary(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	p := filledPost(t, ada)
	users, err := w.Account.Container(w.Database, blog.UsersContainer)
	if err != nil {
		t.Fatal(err)
	}
	older := &blog.Post{ID: p.ID, Byline: blog.Byline{UserID: ada.UserID, Username: "older"}, Title: "older",
		Content: "older", CreatedAt: ada.CreatedAt, Version: 1, Revision: 1}
	for _, version := range []*blog.Post{older, p} {
		if err := projection.WriteSummary(t.Context(), users, ada.UserID, version); err != nil {
			t.Fatal(err)
		}
	}
	listed := w.AllUserPosts(ada)
	if len(listed) != 1 {
		t.Fatal(listed)
	}
	got := fieldsOf(t, listed[0])
	for name, want := range fieldsOf(t, p) {
		if name == "ReadingMinutes" {
			want = "0" // the summary has the whole text
		}
		if name == "Derived" || name == "Files" {
			continue // no property
		}
		if got[name] != want {
			t.Errorf("%s is %s in the list, want %s", name, got[name], want)
		}
	}
	item := p.Summary()
	var properties map[string]json.RawMessage
	if err := json.Unmarshal(blog.Encode(item), &properties); err != nil {
		t.Fatal(err)
	}
	exported := map[string]json.RawMessage{}
	for page, err := range w.Export(t.Context(), ada.UserID, "") {
		if err != nil {
			t.Fatal(err)
		}
		for _, raw := range page.Items {
			if strings.Contains(string(raw), `"id":"filled"`) {
				if err := json.Unmarshal(raw, &exported); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for name, value := range properties {
		if string(exported[name]) != string(value) {
			t.Errorf("%s is %s in the export, want %s", name, exported[name], value)
		}
	}
}
