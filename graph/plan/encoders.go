package plan

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"byline/graph/cost"
	"byline/graph/fields"
	"byline/graph/globalid"
	"byline/graph/model"
	"byline/graph/names"
	"byline/store"
	"byline/store/blog"
	"byline/store/search"
)

// encoder appends a value as JSON, byte for byte as the executor does.
type encoder[T any] func(dst []byte, d *planData, v T) []byte

// compiler makes the encoders of one object plan.
type compiler struct {
	op        *graphql.OperationContext
	object    *objectPlan
	path      []string // response path of the field being compiled
	inList    bool
	uncovered bool // a field has no encoder
}

// encoders makes the encoders of the fields of a type, by name.
type encoders[T any] map[string]func(*compiler, graphql.CollectedField) encoder[T]

// compile makes the encoder of an object's selections.
func compile[T any](c *compiler, typeName string, selections ast.SelectionSet, known encoders[T]) encoder[T] {
	type step struct {
		before string // the JSON before the value
		encode encoder[T]
	}
	var steps []step
	before := "{"
	for _, f := range graphql.CollectFields(c.op, selections, []string{typeName, "Node"}) {
		var encode encoder[T]
		if f.Name == "__typename" {
			encode = textField(func(T) string { return typeName })(c, f)
		} else if of := known[f.Name]; of != nil {
			c.path = append(c.path, f.Alias)
			encode = of(c, f)
			c.path = c.path[:len(c.path)-1]
		} else {
			c.uncovered = true
			return nil
		}
		steps = append(steps, step{before + `"` + f.Alias + `":`, encode})
		before = ","
	}
	return func(dst []byte, d *planData, v T) []byte {
		if len(steps) == 0 { // no fragment applies to this type
			dst = append(dst, '{')
		}
		for i := range steps {
			dst = append(d.room(dst, len(steps[i].before)+MaxOpaque), steps[i].before...)
			dst = steps[i].encode(dst, d, v)
		}
		return append(d.room(dst, 1), '}')
	}
}

// textField encodes a String or DateTime field.
func textField[T any](of func(T) string) func(*compiler, graphql.CollectedField) encoder[T] {
	return func(*compiler, graphql.CollectedField) encoder[T] {
		return func(dst []byte, d *planData, v T) []byte { return d.text(dst, of(v)) }
	}
}

// textsField encodes a list of strings.
func textsField[T any](of func(T) []string) func(*compiler, graphql.CollectedField) encoder[T] {
	return func(*compiler, graphql.CollectedField) encoder[T] {
		return func(dst []byte, d *planData, v T) []byte {
			dst = append(dst, '[')
			for i, s := range of(v) {
				if dst = d.room(dst, 1); i > 0 {
					dst = append(dst, ',')
				}
				dst = d.text(dst, s)
			}
			return append(d.room(dst, 1), ']')
		}
	}
}

// nullableTextField encodes a nullable String or DateTime field.
func nullableTextField[T any, S ~string](of func(T) *S) func(*compiler, graphql.CollectedField) encoder[T] {
	return func(*compiler, graphql.CollectedField) encoder[T] {
		return func(dst []byte, d *planData, v T) []byte {
			if s := of(v); s != nil {
				return d.text(dst, string(*s))
			}
			return append(dst, "null"...)
		}
	}
}

// opaqueField encodes a string whose characters never need escaping.
func opaqueField[T any](appendTo func(dst []byte, v T) []byte) func(*compiler, graphql.CollectedField) encoder[T] {
	return func(*compiler, graphql.CollectedField) encoder[T] {
		return func(dst []byte, _ *planData, v T) []byte { return append(appendTo(append(dst, '"'), v), '"') }
	}
}

func idField[T any](of func(T) globalid.ID) func(*compiler, graphql.CollectedField) encoder[T] {
	return opaqueField(func(dst []byte, v T) []byte { return of(v).Append(dst) })
}

func intField[T any](of func(T) int32) func(*compiler, graphql.CollectedField) encoder[T] {
	return func(*compiler, graphql.CollectedField) encoder[T] {
		return func(dst []byte, _ *planData, v T) []byte { return strconv.AppendInt(dst, int64(of(v)), 10) }
	}
}

func nullableIntField[T any](of func(T) *int32) func(*compiler, graphql.CollectedField) encoder[T] {
	return func(*compiler, graphql.CollectedField) encoder[T] {
		return func(dst []byte, _ *planData, v T) []byte {
			if n := of(v); n != nil {
				return strconv.AppendInt(dst, int64(*n), 10)
			}
			return append(dst, "null"...)
		}
	}
}

func booleanField[T any](of func(T) bool) func(*compiler, graphql.CollectedField) encoder[T] {
	return func(*compiler, graphql.CollectedField) encoder[T] {
		return func(dst []byte, _ *planData, v T) []byte { return strconv.AppendBool(dst, of(v)) }
	}
}

// permissionField encodes whether the viewer is allowed to execute a mutation of what an author wrote.
func permissionField[T any](mutation string, author func(T) string) func(*compiler, graphql.CollectedField) encoder[T] {
	row := fields.Lookup("Mutation", mutation)
	return func(c *compiler, _ graphql.CollectedField) encoder[T] {
		c.object.viewer = true
		return func(dst []byte, d *planData, v T) []byte {
			return strconv.AppendBool(dst, row.Allows(d.viewer == author(v), d.moderator))
		}
	}
}

var bylineFields = withByline(func(b blog.Byline) blog.Byline { return b }, encoders[blog.Byline]{})

// withByline adds the fields of a user that are read from the byline.
func withByline[T any](of func(T) blog.Byline, known encoders[T]) encoders[T] {
	known["id"] = idField(func(v T) globalid.ID { return globalid.OfUser(of(v).UserID) })
	for name, text := range names.Fields {
		known[name] = func(*compiler, graphql.CollectedField) encoder[T] {
			return func(dst []byte, d *planData, v T) []byte {
				if s := text(d.names.Show(of(v))); s != nil {
					return d.text(dst, *s)
				}
				return append(dst, "null"...)
			}
		}
	}
	return known
}

func userField[T any](of func(T) blog.Byline) func(*compiler, graphql.CollectedField) encoder[T] {
	return objectField("User", bylineFields, of)
}

// objectField encodes a non-null object.
func objectField[T, V any](
	typeName string, known encoders[V], of func(T) V,
) func(*compiler, graphql.CollectedField) encoder[T] {
	return func(c *compiler, f graphql.CollectedField) encoder[T] {
		encode := compile(c, typeName, f.Selections, known)
		return func(dst []byte, d *planData, v T) []byte { return encode(dst, d, of(v)) }
	}
}

// nullableObjectField encodes an object that may be missing: nil.
func nullableObjectField[T, V any](
	typeName string, known encoders[*V], of func(T) *V,
) func(*compiler, graphql.CollectedField) encoder[T] {
	return func(c *compiler, f graphql.CollectedField) encoder[T] {
		encode := compile(c, typeName, f.Selections, known)
		return func(dst []byte, d *planData, v T) []byte {
			if object := of(v); object != nil {
				return encode(dst, d, object)
			}
			return append(dst, "null"...)
		}
	}
}

var userFields = withByline(func(u *names.User) blog.Byline { return u.Byline }, encoders[*names.User]{
	"bio":       nullableTextField(func(u *names.User) *string { return TextOrNull(u.Bio) }),
	"createdAt": textField(func(u *names.User) string { return string(u.CreatedAt) }),
	"posts": listField("Post", postFields,
		func(ctx context.Context, s Source, u *names.User, p store.Paging) (*store.Page[*blog.Post], error) {
			return s.UserPosts(ctx, u.UserID, p)
		}, countOfPosts),
	"drafts": listField("Post", postFields,
		func(ctx context.Context, s Source, u *names.User, p store.Paging) (*store.Page[*blog.Post], error) {
			return s.UserDrafts(ctx, u.UserID, p)
		}, func(ctx context.Context, s Source, u *names.User) (int32, error) { return s.DraftCount(ctx, u.UserID) }),
	"bookmarks": listField("Post", postFields,
		func(ctx context.Context, s Source, u *names.User, p store.Paging) (*store.Page[*blog.Post], error) {
			return s.Bookmarks(ctx, u.UserID, p)
		}, func(ctx context.Context, s Source, u *names.User) (int32, error) {
			return s.BookmarkCount(ctx, u.UserID)
		}),
	"likedPosts": listField("Post", postFields,
		func(ctx context.Context, s Source, u *names.User, p store.Paging) (*store.Page[*blog.Post], error) {
			return s.LikedPosts(ctx, u.UserID, p)
		}, func(ctx context.Context, s Source, u *names.User) (int32, error) { return s.LikedCount(ctx, u.UserID) }),
	"home": listField("Post", postFields,
		func(ctx context.Context, s Source, u *names.User, p store.Paging) (*store.Page[*blog.Post], error) {
			return s.Home(ctx, u.UserID, p)
		}, nil),
	"postCount": func(c *compiler, _ graphql.CollectedField) encoder[*names.User] {
		count := c.count("User.postCount", c.path, func(ctx context.Context, s Source, user any) (int32, error) {
			return countOfPosts(ctx, s, user.(*names.User))
		})
		return func(dst []byte, d *planData, _ *names.User) []byte {
			return strconv.AppendInt(dst, int64(count(d)), 10)
		}
	},
	"followerCount":  intField(func(u *names.User) int32 { return u.FollowerCount }),
	"followingCount": intField(func(u *names.User) int32 { return u.FollowingCount }),
	"viewerFollows": func(c *compiler, _ graphql.CollectedField) encoder[*names.User] {
		follows := c.read("User.viewerFollows", c.path, func(ctx context.Context, s Source, user any) (any, error) {
			return s.ViewerFollows(ctx, user.(*names.User).UserID)
		})
		return func(dst []byte, d *planData, _ *names.User) []byte {
			if yes := follows(d).(*bool); yes != nil {
				return strconv.AppendBool(dst, *yes)
			}
			return append(dst, "null"...)
		}
	},
	"followers": listField("User", followFields,
		func(ctx context.Context, s Source, u *names.User, p store.Paging) (*store.Page[*blog.Follow], error) {
			return s.Followers(ctx, u.UserID, p)
		}, known(func(u *names.User) int32 { return u.FollowerCount })),
	"following": listField("User", followFields,
		func(ctx context.Context, s Source, u *names.User, p store.Paging) (*store.Page[*blog.Follow], error) {
			return s.Following(ctx, u.UserID, p)
		}, known(func(u *names.User) int32 { return u.FollowingCount })),
})

// followFields are the fields of users in lists of follows: those of the byline, and whether the viewer follows them.
var followFields = withByline(func(f *blog.Follow) blog.Byline { return f.Byline }, encoders[*blog.Follow]{
	"viewerFollows": followedField(func(f *blog.Follow) string { return f.UserID }),
})

// authorFields are those of the authors of posts.
var authorFields = withByline(func(b blog.Byline) blog.Byline { return b }, encoders[blog.Byline]{
	"viewerFollows": followedField(func(b blog.Byline) string { return b.UserID }),
})

// followedField encodes whether the viewer follows a user, which the plan reads for all users at once.
func followedField[T any](userID func(T) string) func(*compiler, graphql.CollectedField) encoder[T] {
	return func(c *compiler, _ graphql.CollectedField) encoder[T] {
		c.object.followed = strings.Join(c.path, ".")
		return func(dst []byte, d *planData, v T) []byte { return appendMark(dst, d.followed, userID(v)) }
	}
}

func countOfPosts(ctx context.Context, s Source, u *names.User) (int32, error) {
	return s.PostCount(ctx, u.UserID)
}

// TextOrNull returns the value of a field whose text may be missing: nil for "".
func TextOrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func authorOfPost(p *blog.Post) string       { return p.UserID }
func authorOfComment(c *blog.Comment) string { return c.UserID }

var postFields = withPostTexts(encoders[*blog.Post]{
	"id":   idField(func(p *blog.Post) globalid.ID { return globalid.OfPost(p.ID) }),
	"slug": textField((*blog.Post).Slug),
	"excerpt": func(*compiler, graphql.CollectedField) encoder[*blog.Post] {
		return func(dst []byte, d *planData, p *blog.Post) []byte { return d.excerpt(dst, p) }
	},
	"readingMinutes": func(*compiler, graphql.CollectedField) encoder[*blog.Post] {
		return func(dst []byte, d *planData, p *blog.Post) []byte {
			return strconv.AppendInt(dst, int64(p.Minutes()), 10)
		}
	},
	"content": func(*compiler, graphql.CollectedField) encoder[*blog.Post] {
		return func(dst []byte, d *planData, p *blog.Post) []byte {
			d.incomplete = d.incomplete || p.Truncated
			return d.text(dst, p.Content)
		}
	},
	"contentHtml": func(*compiler, graphql.CollectedField) encoder[*blog.Post] {
		return func(dst []byte, d *planData, p *blog.Post) []byte {
			if p.Truncated {
				d.incomplete = true
				return dst
			}
			return d.html(dst, p.Content)
		}
	},
	"coverImage":   nullableObjectField("CoverImage", coverFields, (*blog.Post).CoverImage),
	"author":       objectField("User", authorFields, func(p *blog.Post) blog.Byline { return p.Byline }),
	"commentCount": intField(func(p *blog.Post) int32 { return p.CommentCount }),
	"likeCount":    intField(func(p *blog.Post) int32 { return p.LikeCount }),
	"viewerHasLiked": func(c *compiler, _ graphql.CollectedField) encoder[*blog.Post] {
		c.object.liked = strings.Join(c.path, ".")
		return func(dst []byte, d *planData, p *blog.Post) []byte { return appendMark(dst, d.liked, p.ID) }
	},
	"viewerHasBookmarked": func(c *compiler, _ graphql.CollectedField) encoder[*blog.Post] {
		c.object.bookmarked = strings.Join(c.path, ".")
		return func(dst []byte, d *planData, p *blog.Post) []byte { return appendMark(dst, d.bookmarked, p.ID) }
	},
	"viewerCanUpdate": permissionField("updatePost", authorOfPost),
	"viewerCanDelete": permissionField("deletePost", authorOfPost),
	"tags":            textsField(func(p *blog.Post) []string { return p.Tags }),
	"createdAt":       textField(func(p *blog.Post) string { return string(p.CreatedAt) }),
	"isDraft":         booleanField(func(p *blog.Post) bool { return p.IsDraft }),
	"updatedAt":       nullableTextField(func(p *blog.Post) *blog.Date { return p.UpdatedAt }),
	"version":         intField(func(p *blog.Post) int32 { return p.Version }),
	"comments": listField("Comment", commentFields,
		func(ctx context.Context, s Source, post *blog.Post, p store.Paging) (*store.Page[*blog.Comment], error) {
			return s.Comments(ctx, post.ID, p)
		}, known(func(p *blog.Post) int32 { return p.CommentCount })),
	"likes": listField("Like", likeFields,
		func(ctx context.Context, s Source, post *blog.Post, p store.Paging) (*store.Page[*blog.Like], error) {
			return s.Likes(ctx, post.ID, p)
		}, known(func(p *blog.Post) int32 { return p.LikeCount })),
})

// appendMark appends whether the viewer has marked a post, or follows a user, by its id: null for an anonymous one.
func appendMark(dst []byte, marks map[string]bool, id string) []byte {
	if marks == nil {
		return append(dst, "null"...)
	}
	return strconv.AppendBool(dst, marks[id])
}

var coverFields = encoders[*blog.CoverImage]{
	"url":    textField(func(c *blog.CoverImage) string { return c.URL }),
	"alt":    textField(func(c *blog.CoverImage) string { return c.Alt }),
	"width":  nullableIntField(func(c *blog.CoverImage) *int32 { return c.Width }),
	"height": nullableIntField(func(c *blog.CoverImage) *int32 { return c.Height }),
}

// withPostTexts adds the texts of posts.
func withPostTexts(all encoders[*blog.Post]) encoders[*blog.Post] {
	for _, t := range blog.PostTexts {
		if t.Input != "" {
			continue // not a field
		}
		if t.Optional {
			all[t.Name] = nullableTextField(func(p *blog.Post) *string { return TextOrNull(*t.Of(p)) })
		} else {
			all[t.Name] = textField(func(p *blog.Post) string { return *t.Of(p) })
		}
	}
	return all
}

var tagFields = encoders[*store.Tag]{
	"id":        idField(func(t *store.Tag) globalid.ID { return globalid.OfTag(t.Name) }),
	"name":      textField(func(t *store.Tag) string { return t.Name }),
	"postCount": intField(func(t *store.Tag) int32 { return t.PostCount }),
	"posts": listField("Post", postFields,
		func(ctx context.Context, s Source, t *store.Tag, p store.Paging) (*store.Page[*blog.Post], error) {
			return s.TagPosts(ctx, t, p)
		}, known(func(t *store.Tag) int32 { return t.PostCount })),
}

var monthFields = encoders[*blog.Month]{
	"month":     textField(func(m *blog.Month) string { return m.Month }),
	"postCount": intField(func(m *blog.Month) int32 { return m.PostCount }),
}

var snippetFields = encoders[search.Snippet]{
	"text": textField(func(s search.Snippet) string { return s.Text }),
	"matches": func(c *compiler, f graphql.CollectedField) encoder[search.Snippet] {
		encode := compile(c, "TextRange", f.Selections, rangeFields)
		return func(dst []byte, d *planData, s search.Snippet) []byte {
			return appendList(dst, d, len(s.Matches), func(dst []byte, i int) []byte {
				return encode(dst, d, s.Matches[i])
			})
		}
	},
}

var rangeFields = encoders[search.Range]{
	"start": intField(func(r search.Range) int32 { return int32(r.Start) }),
	"end":   intField(func(r search.Range) int32 { return int32(r.End) }),
}

var commentFields = encoders[*blog.Comment]{
	"id":      idField(func(c *blog.Comment) globalid.ID { return globalid.OfComment(c.PostID, c.ID) }),
	"author":  userField(func(c *blog.Comment) blog.Byline { return c.Byline }),
	"content": textField(func(c *blog.Comment) string { return c.Content }),
	"contentHtml": func(*compiler, graphql.CollectedField) encoder[*blog.Comment] {
		return func(dst []byte, d *planData, c *blog.Comment) []byte { return d.html(dst, c.Content) }
	},
	"createdAt":       textField(func(c *blog.Comment) string { return string(c.CreatedAt) }),
	"updatedAt":       nullableTextField(func(c *blog.Comment) *blog.Date { return c.UpdatedAt }),
	"viewerCanUpdate": permissionField("updateComment", authorOfComment),
	"viewerCanDelete": permissionField("deleteComment", authorOfComment),
}

var likeFields = encoders[*blog.Like]{
	"id":        idField(func(l *blog.Like) globalid.ID { return globalid.OfLike(l.PostID, l.UserID) }),
	"user":      userField(func(l *blog.Like) blog.Byline { return l.Byline }),
	"createdAt": textField(func(l *blog.Like) string { return string(l.CreatedAt) }),
}

// known returns the length of a list that its parent has.
func known[P any](total func(P) int32) func(context.Context, Source, P) (int32, error) {
	return func(_ context.Context, _ Source, parent P) (int32, error) { return total(parent), nil }
}

// listField encodes a page of a list, which the plan reads before it encodes, as it does the length of the list if that
// is selected. A nil count is that of a list that is not counted.
func listField[P, T any](
	typeName string, of encoders[T],
	read func(context.Context, Source, P, store.Paging) (*store.Page[T], error),
	count func(context.Context, Source, P) (int32, error),
) func(*compiler, graphql.CollectedField) encoder[P] {
	return func(c *compiler, f graphql.CollectedField) encoder[P] {
		if c.inList {
			c.uncovered = true
			return nil
		}
		at, path := len(c.object.lists), any(strings.Join(c.path, "."))
		c.object.lists = append(c.object.lists,
			plannedList{f.ObjectDefinition.Name + "." + f.Name,
				func(ctx context.Context, s Source, parent any) (any, error) {
					p, err := Paging(ctx, f.Field)
					if err != nil {
						return nil, err
					}
					return read(cost.WithField(ctx, path), s, parent.(P), p)
				}})
		if _, counts := c.totalIn(typeName, f.Selections); counts && count == nil {
			c.uncovered = true // it is null
			return nil
		}
		total := c.total(typeName, f.Selections, func(ctx context.Context, s Source, parent any) (int32, error) {
			return count(ctx, s, parent.(P))
		})
		encode := connectionOf(c, typeName, f.Selections, nodeOnly(typeName, of))
		return func(dst []byte, d *planData, parent P) []byte {
			page := d.pages[at].(*store.Page[T])
			if page == nil {
				return append(d.room(dst, len("null")), "null"...)
			}
			return encode(dst, d, listed[T]{page, total(d)})
		}
	}
}

// total has the plan read the length of a list if its totalCount is selected, and returns what finds it then.
func (c *compiler) total(
	typeName string, selections ast.SelectionSet, count func(context.Context, Source, any) (int32, error),
) func(*planData) int32 {
	if f, ok := c.totalIn(typeName, selections); ok {
		return c.count(typeName+"Connection.totalCount", append(slices.Clone(c.path), f.Alias), count)
	}
	return func(*planData) int32 { return 0 }
}

// totalIn returns the totalCount of a list if it is selected.
func (c *compiler) totalIn(typeName string, selections ast.SelectionSet) (f graphql.CollectedField, ok bool) {
	for _, f := range graphql.CollectFields(c.op, selections, []string{typeName + "Connection"}) {
		if f.Name == "totalCount" {
			return f, true
		}
	}
	return f, false
}

// count has the plan read the number of a field, at a response path, and returns what finds it then.
func (c *compiler) count(
	field string, responsePath []string, read func(context.Context, Source, any) (int32, error),
) func(*planData) int32 {
	value := c.read(field, responsePath, func(ctx context.Context, s Source, parent any) (any, error) {
		return read(ctx, s, parent)
	})
	return func(d *planData) int32 { return value(d).(int32) }
}

// read has the plan read the value of a field, at a response path, and returns what finds it then.
func (c *compiler) read(
	field string, responsePath []string, read func(context.Context, Source, any) (any, error),
) func(*planData) any {
	at, path := len(c.object.lists), any(strings.Join(responsePath, "."))
	c.object.lists = append(c.object.lists, plannedList{field,
		func(ctx context.Context, s Source, parent any) (any, error) {
			return read(cost.WithField(ctx, path), s, parent)
		}})
	return func(d *planData) any { return d.pages[at] }
}

// listed is a page of a list, and the length of the list if it is selected.
type listed[T any] struct {
	page  *store.Page[T]
	total int32
}

// edge is an item of a page.
type edge[T any] struct {
	page *store.Page[T]
	i    int
}

// nodeOnly are the fields of an edge whose item is the node, besides its cursor.
func nodeOnly[T any](typeName string, of encoders[T]) encoders[T] {
	return encoders[T]{"node": objectField(typeName, of, func(item T) T { return item })}
}

// connectionOf makes the encoder of a page, given the prefix of the names of its types, and the fields of its edges
// besides the cursor.
func connectionOf[T any](
	c *compiler, prefix string, selections ast.SelectionSet, fieldsOfEdge encoders[T],
) encoder[listed[T]] {
	c.inList = true
	defer func() { c.inList = false }()
	edgeFields := encoders[edge[T]]{
		"cursor": opaqueField(func(dst []byte, e edge[T]) []byte { return e.page.AppendCursor(dst, e.i) }),
	}
	for name, of := range fieldsOfEdge {
		edgeFields[name] = func(c *compiler, f graphql.CollectedField) encoder[edge[T]] {
			encode := of(c, f)
			return func(dst []byte, d *planData, e edge[T]) []byte { return encode(dst, d, e.page.Items[e.i]) }
		}
	}
	return compile(c, prefix+"Connection", selections, encoders[listed[T]]{
		"totalCount": intField(func(l listed[T]) int32 { return l.total }),
		"edges": func(c *compiler, f graphql.CollectedField) encoder[listed[T]] {
			encode := compile(c, prefix+"Edge", f.Selections, edgeFields)
			return func(dst []byte, d *planData, l listed[T]) []byte {
				return appendList(dst, d, len(l.page.Items), func(dst []byte, i int) []byte {
					return encode(dst, d, edge[T]{l.page, i})
				})
			}
		},
		"pageInfo": func(c *compiler, f graphql.CollectedField) encoder[listed[T]] {
			encode := compile(c, "PageInfo", f.Selections, pageInfoFields)
			return func(dst []byte, d *planData, l listed[T]) []byte {
				return encode(dst, d, PageInfo(l.page))
			}
		},
	})
}

var pageInfoFields = encoders[*model.PageInfo]{
	"hasNextPage":     booleanField(func(p *model.PageInfo) bool { return p.HasNextPage }),
	"hasPreviousPage": booleanField(func(p *model.PageInfo) bool { return p.HasPreviousPage }),
	"startCursor":     nullableTextField(func(p *model.PageInfo) *string { return p.StartCursor }),
	"endCursor":       nullableTextField(func(p *model.PageInfo) *string { return p.EndCursor }),
}

// appendList encodes a list of n objects.
func appendList(dst []byte, d *planData, n int, encode func(dst []byte, i int) []byte) []byte {
	dst = append(dst, '[')
	for i := range n {
		if dst = d.room(dst, 1); i > 0 {
			dst = append(dst, ',')
		}
		dst = encode(dst, i)
	}
	return append(d.room(dst, 1), ']')
}

// rootTypes compiles the encoders of root field values, by the field's type and the value's concrete
// type.
var rootTypes = map[string]map[string]func(*compiler, ast.SelectionSet) encoder[any]{
	"User":    {"User": object("User", userFields)},
	"Post":    {"Post": object("Post", postFields)},
	"Tag":     {"Tag": object("Tag", tagFields)},
	"[Tag]":   {"[Tag]": listOf("Tag", tagFields)},
	"[Month]": {"[Month]": listOf("Month", monthFields)},
	"PostConnection": {"PostConnection": func(c *compiler, s ast.SelectionSet) encoder[any] {
		total := c.total("Post", s, func(ctx context.Context, _ Source, v any) (int32, error) {
			return v.(rootList).total(ctx)
		})
		encode := connectionOf(c, "Post", s, nodeOnly("Post", postFields))
		return func(dst []byte, d *planData, v any) []byte {
			return encode(dst, d, listed[*blog.Post]{v.(rootList).page, total(d)})
		}
	}},
	"SearchConnection": {"SearchConnection": func(c *compiler, s ast.SelectionSet) encoder[any] {
		encode := connectionOf(c, "Search", s, encoders[*store.Found]{
			"node":    objectField("Post", postFields, func(f *store.Found) *blog.Post { return f.Post }),
			"snippet": objectField("Snippet", snippetFields, func(f *store.Found) search.Snippet { return f.Snippet }),
		})
		return func(dst []byte, d *planData, v any) []byte {
			return encode(dst, d, listed[*store.Found]{page: v.(*store.Page[*store.Found])})
		}
	}},
	"Node": {
		"User":    object("User", userFields),
		"Post":    object("Post", postFields),
		"Comment": object("Comment", commentFields),
		"Like":    object("Like", likeFields),
		"Tag":     object("Tag", tagFields),
	},
}

func listOf[T any](typeName string, of encoders[T]) func(*compiler, ast.SelectionSet) encoder[any] {
	return func(c *compiler, s ast.SelectionSet) encoder[any] {
		c.inList = true
		encode := compile(c, typeName, s, of)
		return func(dst []byte, d *planData, v any) []byte {
			all := v.([]T)
			return appendList(dst, d, len(all), func(dst []byte, i int) []byte { return encode(dst, d, all[i]) })
		}
	}
}

func object[T any](typeName string, of encoders[T]) func(*compiler, ast.SelectionSet) encoder[any] {
	return func(c *compiler, s ast.SelectionSet) encoder[any] { return anyOf(compile(c, typeName, s, of)) }
}

func anyOf[T any](encode encoder[T]) encoder[any] {
	return func(dst []byte, d *planData, v any) []byte { return encode(dst, d, v.(T)) }
}
