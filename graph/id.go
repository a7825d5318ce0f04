package graph

import (
	"byline/graph/globalid"
	"byline/store"
)

func idOfUser(id string) globalid.ID { return globalid.ID{Kind: globalid.User, Key: id} }
func idOfPost(id string) globalid.ID { return globalid.ID{Kind: globalid.Post, Key: id} }

func idOfComment(c *store.Comment) globalid.ID {
	return globalid.ID{Kind: globalid.Comment, Parent: c.PostID, Key: c.ID}
}

func idOfLike(l *store.Like) globalid.ID {
	return globalid.ID{Kind: globalid.Like, Parent: l.PostID, Key: l.UserID}
}

func userGlobalID(id string) string           { return idOfUser(id).String() }
func postGlobalID(id string) string           { return idOfPost(id).String() }
func commentGlobalID(c *store.Comment) string { return idOfComment(c).String() }
func likeGlobalID(l *store.Like) string       { return idOfLike(l).String() }

// parseID reads a global id that was given as the named argument or input field.
func parseID(field, text string) (globalid.ID, error) {
	id, err := globalid.Parse(text)
	if err != nil {
		return id, refuse(field, "%s is not a valid global id", field)
	}
	return id, nil
}

// parseIDOf is parseID for an id that must be of one kind. It returns the object's key.
func parseIDOf(kind globalid.Kind, field, text string) (string, error) {
	id, err := parseNestedID(kind, field, text)
	return id.Key, err
}

// parseNestedID is parseIDOf for objects in the partition of a parent.
func parseNestedID(kind globalid.Kind, field, text string) (globalid.ID, error) {
	id, err := parseID(field, text)
	if err == nil && id.Kind != kind {
		err = refuse(field, "%s is the id of a %s, not of a %s", field, id.Kind, kind)
	}
	return id, err
}
