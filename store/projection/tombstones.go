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

// formerTombstone is the Difference.Have of a tombstone that has the type of what was deleted, as version 0.1 wrote.
// Everything understands it, but lists meet it, and skip it.
const formerTombstone = "a tombstone in the way of lists"

// tombstones is the view of the tombstones of posts, comments and texts in the posts container. It converts former
// ones; those of summaries are of the views of summaries and the feed.
func (v *Views) tombstones() view {
	return view{
		kind:    Tombstone,
		scanned: func(_ context.Context, read *verifier) ([]Difference, error) { return read.formerTombstones, nil },
		compare: v.compareTombstone,
		repair:  v.repairTombstone,
	}
}

func (v *Views) compareTombstone(ctx context.Context, d Difference) (*Difference, error) {
	raw, err := stored.Read(ctx, "verify", v.posts, stored.Key(d.Partition, d.ID))
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

// repairTombstone gives a tombstone its type.
func (v *Views) repairTombstone(ctx context.Context, d Difference) error {
	var p cosmos.Patch
	p.Condition = fmt.Sprintf("from c where c.type = '%s' AND IS_DEFINED(c.deleted)", d.Have)
	p.Set("/type", d.Want)
	_, err := v.posts.Patch(ctx, stored.Key(d.Partition, d.ID), p)
	if cosmos.HasStatus(err, http.StatusNotFound, http.StatusPreconditionFailed) {
		return nil // expired, or converted
	}
	return err
}
