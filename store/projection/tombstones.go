package projection

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/stored"
)

// tombstoneView is the view of the tombstones of posts, comments and texts in the posts container. It converts former
// ones; those of summaries are of the views of summaries and the feed.
type tombstoneView struct{ *base }

func (t *tombstoneView) kind() Kind { return Tombstone }

func (t *tombstoneView) suspects(_ context.Context, s *scan) ([]Difference, error) {
	return differences(Tombstone, s.formerTombstones), nil
}

func (t *tombstoneView) compare(ctx context.Context, d Difference) (*Difference, error) {
	raw, err := stored.Read(ctx, "verify", t.posts, stored.Key(d.Partition, d.ID))
	if raw == nil || err != nil || !isFormerTombstone(raw) {
		return nil, err
	}
	var e struct{ Type string }
	if err := json.Unmarshal(raw, &e); err != nil {
		return nil, blog.Malformed("verify", "deleted", err)
	}
	d.Have, d.Want = e.Type, blog.TombstoneType(e.Type)
	return &d, nil
}

// repair gives a tombstone its type.
func (t *tombstoneView) repair(ctx context.Context, d Difference) error {
	var p cosmos.Patch
	p.Condition = fmt.Sprintf("from c where c.type = '%s' AND IS_DEFINED(c.deleted)", d.Have)
	p.Set("/type", d.Want)
	_, err := t.posts.Patch(ctx, stored.Key(d.Partition, d.ID), p)
	if cosmos.HasStatus(err, http.StatusNotFound, http.StatusPreconditionFailed) {
		return nil // expired, or converted
	}
	return err
}
