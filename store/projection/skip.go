package projection

import (
	"encoding/json"

	"byline/store/blog"
)

// setAside leaves an item out that cannot be read, and returns its id.
func (v *Views) skip(container string, raw []byte, err error) string {
	var item struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(raw, &item) // every item has one
	v.metrics.skipped.Inc()
	v.o.Logger.Error("item set aside: it cannot be projected", logContainer, container, logItem, item.ID, logError, err)
	return item.ID
}

// decodeAnyUser is decodeUser for work that goes on past a user that cannot be read:
// it has an id alone.
func (v *Views) decodeAnyUser(op string, raw []byte) (*blog.User, error) {
	u, err := blog.DecodeUser(op, raw)
	if err != nil {
		return &blog.User{ID: v.skip(blog.UsersContainer, raw, err)}, nil
	}
	return u, nil
}

// decodeAnyPost is decodePost for work that goes on past a post that cannot be read:
// it is absent.
func (v *Views) decodeAnyPost(op string, raw []byte) (*blog.Post, error) {
	p, err := blog.DecodePost(op, raw)
	if err != nil {
		v.skip(blog.PostsContainer, raw, err)
		return nil, nil
	}
	return p, nil
}
