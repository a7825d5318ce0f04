package store_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"byline/store/blog"
)

// kept are the properties that a tombstone keeps of its item. The tags are removed by the job that deletes the rest of
// the post: see TestTags_Edits.
var kept = []string{"type", "id", "postId", "userId", "userUsername", "creationDate", "revision", "tags", "formerTags",
	"files"}

// marked returns an item with a value of its own in every property that a tombstone must not keep, also in one
// that this version does not know, and these values as JSON.
func marked(t *testing.T, item any) (text string, values map[string]string) {
	t.Helper()
	properties := map[string]any{}
	if err := json.Unmarshal([]byte(jsonOf(t, item)), &properties); err != nil {
		t.Fatal(err)
	}
	values = map[string]string{}
	mark := func(name string, value any) {
		properties[name] = value
		values[name] = jsonOf(t, value)
	}
	mark("ofALaterVersion", "left of ofALaterVersion")
	for i, f := range reflect.VisibleFields(reflect.TypeOf(item)) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name == "-" || name == "deleted" || name == "ttl" || slices.Contains(kept, name) {
			continue
		}
		typ := f.Type
		if typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		switch {
		case typ == reflect.TypeFor[blog.Date]():
			mark(name, fmt.Sprintf("1999-01-01T00:00:00.%03dZ", i))
		case typ.Kind() == reflect.String:
			mark(name, "left of "+name)
		case typ.Kind() == reflect.Int32:
			mark(name, 1_900_000_000+i)
		case typ.Kind() == reflect.Bool:
			mark(name, true)
			delete(values, name) // its name is enough
		default:
			t.Fatalf("%T.%s: mark values of type %s, too", item, f.Name, f.Type)
		}
		if _, ok := values[name]; !ok {
			values[name] = `"` + name + `"`
		}
	}
	return jsonOf(t, properties), values
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestTombstones_KeepNothingElse fills every property of every item of a post, deletes the post, and searches the
// containers for each value.
func TestTombstones_KeepNothingElse(t *testing.T) {
	for name, remove := range map[string]func(w *world, author *blog.User, p *blog.Post, c *blog.Comment) error{
		"comment": func(w *world, author *blog.User, p *blog.Post, c *blog.Comment) error {
			_, err := w.DeleteComment(t.Context(), author.UserID, p.ID, c.ID)
			return err
		},
		"comment by a moderator": func(w *world, _ *blog.User, p *blog.Post, c *blog.Comment) error {
			_, err := w.RemoveComment(t.Context(), p.ID, c.ID)
			return err
		},
		"post": func(w *world, author *blog.User, p *blog.Post, _ *blog.Comment) error {
			return w.DeletePost(t.Context(), author.UserID, p.ID)
		},
		"post by a moderator": func(w *world, _ *blog.User, p *blog.Post, _ *blog.Comment) error {
			return w.RemovePost(t.Context(), p.ID)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ada := w.AddUser("ada")
			p := w.AddPost(ada, "Post")
			c := w.AddComment(ada, p, "comment")
			left := map[string]string{} // by container and property
			fill := func(container, partition string, item any) {
				text, values := marked(t, item)
				w.Upsert(container, partition, text)
				for property, value := range values {
					left[container+" "+property+" of "+reflect.TypeOf(item).Name()] = value
				}
			}
			comment := blog.CommentItem{Envelope: blog.Envelope{Type: blog.TypeComment}, Comment: *c}
			if strings.HasPrefix(name, "comment") {
				fill("posts", p.ID, comment)
			} else {
				post, _ := blog.NewPostItem(p)
				summary := p.Summary()
				fill("posts", p.ID, post)
				fill("posts", p.ID, *blog.NewText(p.ID, ada.UserID, "text"))
				fill("posts", p.ID, comment)
				fill("users", ada.UserID, summary)
				summary.Type = blog.FeedPartitionKeys(1)[0]
				fill("feed", summary.Type, summary)
			}
			for what, value := range left {
				if len(mentioning(w.World, value)) == 0 {
					t.Fatalf("%s: %s is not stored before the deletion", what, value)
				}
			}
			if err := remove(w, ada, p, c); err != nil {
				t.Fatal(err)
			}
			for what, value := range left {
				if found := mentioning(w.World, value); len(found) > 0 {
					t.Errorf("%s: %s is left in %s", what, value, slices.Collect(maps.Keys(found)))
				}
			}
			if tombstones := mentioning(w.World, `"ttl":2592000`); len(tombstones) == 0 {
				t.Error("no tombstone that lives 30 days")
			}
		})
	}
}
