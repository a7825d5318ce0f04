package projection

import (
	"context"
	"errors"
	"fmt"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/stored"
)

// countView is the view of the counts of comments and likes on their posts.
type countView struct{ *base }

func (c *countView) kind() Kind { return Count }

func (c *countView) suspects(_ context.Context, s *scan) (found []Difference, _ error) {
	for id, p := range s.posts {
		if p.exists && (p.comments != 0 || p.likes != 0) {
			found = append(found, Difference{Kind: Count, Partition: id, ID: id})
		}
	}
	return found, nil
}

func (c *countView) replaySuspects(_ context.Context, posts map[string]*blog.Post) (found []Difference, _ error) {
	for _, p := range posts {
		if !p.Tombstone {
			found = append(found, Difference{Kind: Count, Partition: p.ID, ID: p.ID})
		}
	}
	return found, nil
}

// countOf counts the comments and likes of a post or tombstone. It counts again if the revision changes
// meanwhile.
func (c *countView) countOf(ctx context.Context, id string) (post *blog.Post, comments, likes int32, err error) {
	const op = "count comments and likes"
	for range 10 {
		before, err := c.sourceOf(ctx, id)
		if before == nil || err != nil {
			return nil, 0, 0, err
		}
		q := cosmos.Query{Partition: id,
			Text: "SELECT c.type, c.deleted FROM c WHERE c.postId = @post AND c.type IN ('comment', 'like')"}
		types, err := readPages[blog.Envelope](ctx, op, c.posts, q.With("@post", id))
		if err != nil {
			return nil, 0, 0, err
		}
		comments, likes = 0, 0
		for _, t := range types {
			switch {
			case t.Deleted:
			case t.Type == blog.TypeComment:
				comments++
			default:
				likes++
			}
		}
		after, err := c.sourceOf(ctx, id)
		if err != nil {
			return nil, 0, 0, err
		}
		if after != nil && after.Revision == before.Revision {
			return after, comments, likes, nil
		}
	}
	return nil, 0, 0, &blog.Error{Code: blog.Conflict, Op: op, Err: errors.New("the post keeps changing")}
}

func (c *countView) compare(ctx context.Context, d Difference) (*Difference, error) {
	p, comments, likes, err := c.countOf(ctx, d.ID)
	if p == nil || err != nil {
		return nil, err
	}
	there := fmt.Sprintf("%d comments, %d likes", comments, likes)
	if d.Have, d.Want = fmt.Sprintf("%d comments, %d likes", p.CommentCount, p.LikeCount), there; p.Tombstone {
		d.Have, d.Want = there, "0 comments, 0 likes"
	}
	if d.Have == d.Want {
		return nil, nil
	}
	if p.Tombstone {
		if deleting, err := c.deletionPending(ctx, p.ID, p.UserID); deleting || err != nil {
			return nil, err
		}
	}
	return &d, nil
}

func (c *countView) repair(ctx context.Context, d Difference) error {
	p, comments, likes, err := c.countOf(ctx, d.ID)
	if p == nil || err != nil {
		return err
	}
	if p.Tombstone {
		return c.enqueue(ctx, deletePostJob, map[string]int64{d.ID: p.Revision})
	}
	var o cosmos.Patch
	o.Condition = fmt.Sprintf("from c where c.revision = %d", p.Revision)
	o.Set("/commentCount", comments)
	o.Set("/likeCount", likes)
	o.Increment("/revision", 1)
	_, err = c.posts.Patch(ctx, stored.Key(d.ID, d.ID), o)
	return err
}

// followCountView is the view of the numbers of followers and of followed authors on users.
type followCountView struct{ *base }

func (c *followCountView) kind() Kind { return FollowCount }

func (c *followCountView) suspects(_ context.Context, s *scan) (found []Difference, _ error) {
	for id, n := range s.follows.uncounted {
		if _, ok := s.users[id]; ok && n != (followCounts{}) {
			found = append(found, Difference{Kind: FollowCount, Partition: id, ID: id})
		}
	}
	return found, nil
}

// followCounts are the numbers of the followers of a user, and of the authors whom the user follows.
type followCounts struct{ followers, followed int32 }

func (n followCounts) String() string {
	return fmt.Sprintf("%d followers, %d followed", n.followers, n.followed)
}

// countOf counts the follows in the partition of a user, and returns the ETag of the user: "" if there is no live one.
// It counts again if the user changes meanwhile.
func (c *followCountView) countOf(
	ctx context.Context, id string,
) (have, there followCounts, etag cosmos.ETag, err error) {
	const op = "count follows"
	for range 10 {
		before, err := c.users.Read(ctx, stored.Key(id, id))
		if err != nil {
			return have, there, "", stored.Error(op, err)
		}
		u := decodeLiveUser(before.Value)
		if u == nil {
			return have, there, "", nil
		}
		for typ, n := range map[string]*int32{blog.TypeFollower: &there.followers,
			blog.TypeFollowing: &there.followed} {
			q := cosmos.Query{Partition: id,
				Text: "SELECT VALUE COUNT(1) FROM c WHERE c.userId = @user AND c.type = @type"}
			counts, err := readPages[int32](ctx, op, c.users, q.With("@user", id).With("@type", typ))
			if err != nil {
				return have, there, "", err
			}
			*n = 0
			for _, count := range counts {
				*n += count
			}
		}
		after, err := c.users.Read(ctx, stored.Key(id, id))
		if err != nil {
			return have, there, "", stored.Error(op, err)
		}
		if after.ETag == before.ETag {
			return followCounts{u.FollowerCount, u.FollowingCount}, there, after.ETag, nil
		}
	}
	return have, there, "", &blog.Error{Code: blog.Conflict, Op: op, Err: errors.New("the user keeps changing")}
}

func (c *followCountView) compare(ctx context.Context, d Difference) (*Difference, error) {
	have, want, etag, err := c.countOf(ctx, d.ID)
	if etag == "" || have == want || err != nil {
		return nil, err
	}
	d.Have, d.Want = have.String(), want.String()
	return &d, nil
}

func (c *followCountView) repair(ctx context.Context, d Difference) error {
	_, there, etag, err := c.countOf(ctx, d.ID)
	if etag == "" || err != nil {
		return err
	}
	p := cosmos.Patch{IfMatch: etag}
	p.Set("/followerCount", there.followers)
	p.Set("/followingCount", there.followed)
	_, err = c.users.Patch(ctx, stored.Key(d.ID, d.ID), p)
	return err
}
