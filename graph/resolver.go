package graph

import (
	"context"
	"errors"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"byline/graph/fields"
	"byline/graph/limit"
	"byline/graph/model"
	"byline/graph/plan"
	"byline/graph/refusal"
	"byline/graph/transport"
	"byline/store"
	"byline/store/blog"
	"byline/store/blog/markdown"
)

//go:generate go tool gqlgen generate

// Resolver resolves the fields that are not read from a struct.
type Resolver struct {
	store *store.Store
	html  *markdown.Cache // of posts and comments

	rendering *limit.ClientSlots // of texts that are not cached
}

// texts returns what renders the texts of the response of ctx. Its client pays for those that are not cached.
func (r *Resolver) texts(ctx context.Context) plan.Texts {
	request := transport.RequestOf(ctx)
	return plan.Texts{Memory: request.Memory, Show: func(source string) (markdown.HTML, error) {
		return loadersOf(ctx).rendered.do(source, func() (markdown.HTML, error) {
			h, err := r.html.Show(source, func() (markdown.HTML, error) {
				return r.render(ctx, request.Client(), source, func() {
					request.Meter.AddWork(fields.Rendering(source))
				})
			})
			if err != nil {
				return "", err
			}
			return h, request.Memory.Grow(len(h))
		})
	}}
}

// render renders a text in the client's slot, and calls begin when it has that.
func (r *Resolver) render(ctx context.Context, client, source string, begin func()) (markdown.HTML, error) {
	release, err := r.rendering.Acquire(ctx, client)
	if err != nil {
		return "", err
	}
	defer release()
	begin()
	return markdown.Show(ctx, source)
}

// idempotencyKey returns the key of a create, "" if it is missing. It refuses a key that is present
// and empty, which the store cannot distinguish from a missing one; the store checks the rest.
func idempotencyKey(key graphql.Omittable[*string]) (string, error) {
	switch k := key.Value(); {
	case k == nil:
		return "", nil
	case *k == "":
		return "", refusal.Input("idempotencyKey", blog.ReasonBlank, "must have 1 to 100 characters")
	default:
		return *k, nil
	}
}

// inputErrors returns all errors of an input, which may be joined, as separate errors of the
// response: a form can mark all of its fields at once. It returns nil if there are none.
func inputErrors(ctx context.Context, errs ...error) error {
	var all gqlerror.List
	var add func(error)
	add = func(err error) {
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, err := range joined.Unwrap() {
				add(err)
			}
			return
		}
		e := gqlerror.Wrap(err)
		_ = graphql.AddFieldLocationToError(ctx, e) // the executor would for the first alone
		all = append(all, e)
	}
	if err := errors.Join(errs...); err != nil {
		add(err)
		return all
	}
	return nil
}

// explainRefusal replaces the error of an edit that the store has refused if the viewer has no user:
// the client then has to call createUser.
func (r *Resolver) explainRefusal(ctx context.Context, err error) error {
	code := blog.CodeOf(err)
	if code != blog.Forbidden && code != blog.NotFound {
		return err
	}
	if user, readErr := r.store.User(ctx, viewerID(ctx)); user != nil || readErr != nil {
		return err
	}
	return &refusal.Error{Code: refusal.Forbidden, Reason: blog.ReasonNoUser,
		Message: "you have no user yet: call createUser first", Err: err}
}

// primePost caches the post of a payload, so that fields below it do not read it again. The text
// of a long post is read if it is selected.
func primePost(ctx context.Context, post *blog.Post) *blog.Post {
	l := loadersOf(ctx)
	if !post.Truncated {
		l.posts.prime(post.ID, post)
	}
	l.written.Store(post)
	return post
}

// optional returns the change of a text that may be missing: null and "" remove it, and an absent input keeps it.
func optional(input graphql.Omittable[*string]) store.Optional {
	o := store.Optional{Set: input.IsSet()}
	if text := input.Value(); text != nil {
		o.Value = *text
	}
	return o
}

// cover returns the change of the picture of a post: null is "", and an absent input nil, as of required.
func cover(input graphql.Omittable[*model.CoverImageInput]) (url, alt *string, err error) {
	c, set := input.ValueOK()
	switch {
	case !set:
		return nil, nil, nil
	case c == nil:
		return new(""), new(""), nil
	}
	address, err := addressOf("coverImage.upload", c.Upload.Value(), c.URL)
	if err == nil && address == "" {
		err = blog.Invalidf("read cover", "coverImage", blog.ReasonBlank, "must have an upload or a url")
	}
	if err != nil {
		return nil, nil, err
	}
	return &address, new(optional(c.Alt).Value), nil
}

// coverField returns the field of an input that names the picture of a post.
func coverField(input graphql.Omittable[*model.CoverImageInput]) string {
	if c := input.Value(); c != nil && c.Upload.Value() != nil {
		return "coverImage.upload"
	}
	return "coverImage.url"
}

// inField returns an error of the store, or several, with a field instead of what the store calls it.
func inField(field, stored string, err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, err := range joined.Unwrap() {
			all = append(all, inField(field, stored, err))
		}
		return errors.Join(all...)
	}
	if e, ok := err.(*blog.Error); ok && e.Field == stored {
		renamed := *e
		renamed.Field = field
		return &renamed
	}
	return err
}

// addressOf returns the address of a picture that is given as an upload, in a field, or as a URL.
func addressOf(field string, upload *string, url graphql.Omittable[*string]) (string, error) {
	address := optional(url).Value
	switch {
	case upload == nil:
		return address, nil
	case address != "":
		return "", blog.Invalidf("read picture", field, blog.ReasonTooMany, "must not be given with a URL")
	case !blog.FileID(*upload).Valid():
		return "", blog.Invalidf("read picture", field, blog.ReasonFormat, "is not the id of an upload")
	}
	return blog.FileID(*upload).Path(), nil
}

// required returns the change of a text of a post: null is "", which the store refuses unless the text is optional, and
// an absent input, which keeps it, is nil.
func required(input graphql.Omittable[*string]) *string {
	text, set := input.ValueOK()
	if set && text == nil {
		return new("")
	}
	return text
}
