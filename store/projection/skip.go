package projection

import (
	"encoding/json"

	"byline/store/blog"
)

// skip logs and counts an item that cannot be projected, and returns its id.
func (v *Views) skip(container string, raw []byte, err error) string {
	var item struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(raw, &item) // every item has an id
	v.skipID(container, item.ID, err)
	return item.ID
}

// skipID is skip, given the id of the item.
func (v *Views) skipID(container, id string, err error) {
	v.metrics.skipped.Inc()
	v.o.Logger.Error("item skipped", logContainer, container, logItem, id, logError, err)
}

// decodeAnyUser decodes a user. For a malformed one it calls skip, and returns a user with only the id.
func (v *Views) decodeAnyUser(op string, raw []byte) (*blog.User, error) {
	u, err := blog.DecodeUser(op, raw)
	if err != nil {
		return &blog.User{Byline: blog.Byline{UserID: v.skip(blog.UsersContainer, raw, err)}}, nil
	}
	return u, nil
}

// decodeAnyPost decodes a post. For a malformed one it calls skip, and returns nil.
func (v *Views) decodeAnyPost(op string, raw []byte) (*blog.Post, error) {
	p, err := blog.DecodePost(op, raw)
	if err != nil {
		v.skip(blog.PostsContainer, raw, err)
		return nil, nil
	}
	return p, nil
}
