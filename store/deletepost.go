package store

import (
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/stored"
	"context"
	"net/http"
)

// DeletePost deletes a post: it replaces the post by a tombstone, at the ETag of a read. It deletes
// the summaries, and the first comments and likes, at once; the projections delete the rest.
// NotFound if the post does not exist, Forbidden if it has another author. A draft is deleted at once.
func (s *postStore) DeletePost(ctx context.Context, userID, postID string) error {
	return s.deletePost(ctx, "delete post", byAuthor(userID), postID)
}

// RemovePost is DeletePost for moderators: it deletes the posts of all authors, but no drafts.
func (s *postStore) RemovePost(ctx context.Context, postID string) error {
	return s.deletePost(ctx, "remove post", byModerator, postID)
}

func (s *postStore) deletePost(ctx context.Context, op string, who authorship, postID string) error {
	ctx = s.account.Begin(ctx, DeletePost)
	if !blog.ValidID(postID) {
		return blog.NoPost(op)
	}
	if err := s.authors.check(ctx, op, who.userID); err != nil {
		return err
	}
	for range maxDeleteTries {
		deleted, err := s.tryDeletePost(ctx, op, who, postID)
		if blog.CodeOf(err) == blog.NotFound && who.userID != "" {
			err = s.deleteDraft(ctx, op, who.userID, postID)
			if err == errPublished {
				continue
			}
			return err
		}
		if deleted != nil {
			s.views.UpdateViews(ctx, deleted)
		}
		if deleted != nil || err != nil {
			return err
		}
	}
	return changedMeanwhile(op)
}

// tryDeletePost replaces a post by its tombstone, and returns the deleted post. It returns nil if the post was
// changed meanwhile.
func (s *postStore) tryDeletePost(ctx context.Context, op string, who authorship, postID string) (*blog.Post, error) {
	key := stored.Key(postID, postID)
	have, err := s.posts.Read(ctx, key)
	if err != nil {
		return nil, stored.Error(op, err)
	}
	if have.Value == nil {
		return nil, blog.NoPost(op)
	}
	p, err := s.decodePost(op, have.Value)
	switch {
	case err != nil:
		return nil, err
	case p == nil:
		return nil, blog.NoPost(op)
	case !who.includes(p.UserID):
		return nil, notAuthorOfPost(op)
	}
	if p.WasDraft { // a crash may have left the draft, which would then seem to be one again
		if err := s.dropDraft(ctx, op, p.UserID, p.ID); err != nil {
			return nil, err
		}
	}
	p.Tombstone = true
	p.Revision++
	tombstone := blog.NewPostTombstone(p)
	tombstone.Tags, tombstone.FormerTags = p.Tags, p.FormerTags
	_, err = s.posts.Replace(ctx, key, blog.Encode(tombstone), have.ETag)
	switch {
	case cosmos.HasStatus(err, http.StatusPreconditionFailed, http.StatusNotFound):
		return nil, nil
	case stored.Ambiguous(ctx, err):
		raw, readErr := stored.Read(ctx, op, s.posts, key)
		have, decodeErr := blog.DecodePostOrTombstone(op, raw)
		if readErr == nil && raw != nil && decodeErr == nil && have.Tombstone && who.includes(have.UserID) {
			return have, nil
		}
	}
	if err != nil {
		return nil, stored.Error(op, err)
	}
	return p, nil
}
