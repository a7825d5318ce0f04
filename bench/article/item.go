package article

import (
	"byline/internal/itemjson"
	"byline/store/blog"
)

// item is an item of the posts container. V1 omits denormalized values: the name and the counts.
type item struct {
	ID           string    `json:"id"`
	Type         string    `json:"type"`
	PostID       string    `json:"postId"`
	UserID       string    `json:"userId"`
	Username     string    `json:"userUsername,omitempty"`
	Title        string    `json:"title,omitempty"`
	Content      string    `json:"content,omitempty"`
	CommentCount *int32    `json:"commentCount,omitempty"`
	LikeCount    *int32    `json:"likeCount,omitempty"`
	CreatedAt    blog.Date `json:"creationDate"`
}

// userItem is an item of the users container.
type userItem struct {
	ID       string `json:"id"`
	Username string `json:"username"`
}

const (
	typePost    = "post"
	typeComment = "comment"
	typeLike    = "like"
)

func postItem(p *blog.Post) item {
	return item{ID: p.ID, Type: typePost, PostID: p.ID, UserID: p.UserID, Title: p.Title, Content: p.Content,
		CreatedAt: p.CreatedAt}
}

func commentItem(c *blog.Comment) item {
	return item{ID: c.ID, Type: typeComment, PostID: c.PostID, UserID: c.UserID, Content: c.Content,
		CreatedAt: c.CreatedAt}
}

func likeItem(l *blog.Like) item {
	return item{ID: "like-" + l.UserID, Type: typeLike, PostID: l.PostID, UserID: l.UserID, CreatedAt: l.CreatedAt}
}

// named returns the item with the author's name, which V2 denormalizes.
func (i item) named(username string) item {
	i.Username = username
	return i
}

// encode encodes an item of V1 or V2, with a version as those of V3 have. Items have only strings and numbers, so it
// cannot fail.
func encode(v any) []byte {
	b, err := itemjson.Encode(v)
	if err != nil {
		panic(err)
	}
	return b
}

func (i *item) post() *blog.Post {
	p := &blog.Post{ID: i.ID, Byline: blog.Byline{UserID: i.UserID, Username: i.Username}, Title: i.Title,
		Content: i.Content, CreatedAt: i.CreatedAt}
	if i.CommentCount != nil && i.LikeCount != nil {
		p.CommentCount, p.LikeCount = *i.CommentCount, *i.LikeCount
	}
	return p
}
