package blog

// DraftItem is a draft in its author's partition of the users container. It has the properties of a summary, so that a
// list does not read texts, and the whole text beside them.
type DraftItem struct {
	SummaryItem        // with the ID DraftID; of the byline only the user's id: the rest is read with the draft
	Text        string `json:"text,omitempty"`       // the content, if Truncated
	Publishing  bool   `json:"publishing,omitempty"` // see Post.Publishing
}

// DraftID returns the id of the DraftItem of a post. The summary of the post, in the same partition, has the id of the
// post.
func DraftID(postID string) string { return "draft-" + postID }

// NewDraftItem returns the item of a draft, which must not be Truncated.
func NewDraftItem(p *Post) DraftItem {
	item := DraftItem{SummaryItem: p.Summary(), Publishing: p.Publishing}
	item.Type, item.ID, item.Byline = TypeDraft, DraftID(p.ID), Byline{UserID: p.UserID}
	item.Files = FilesIn(p.Content)
	if item.Truncated {
		item.Text = p.Content
	}
	return item
}

// Whole returns the draft with its text, and of the byline only the user's id.
func (i *DraftItem) Whole() *Post {
	p := i.Post
	p.Derived, p.Files = &Derived{}, i.UsedFiles()
	p.ID, p.ReadingMinutes, p.IsDraft, p.Publishing = i.PostID, 0, true, i.Publishing
	if i.SummaryItem.Truncated {
		p.Content = i.Text
	}
	return &p
}

func (i *DraftItem) readProperty(r *fastReader, name string) bool {
	switch name {
	case "text":
		i.Text = r.stringValue()
	case "publishing":
		i.Publishing = r.boolValue()
	default:
		return i.SummaryItem.readProperty(r, name)
	}
	return true
}

// Drafts is the format of a list of drafts. They have the ids of their posts.
var Drafts = Format[Post]{Fields: "c.postId AS id, " + BylineFields + summaryProperties + ", c.publishing",
	Besides: (*Post).DerivedBytes, fast: readDraft, into: draftTarget}

func readDraft(r *fastReader, p *Post) {
	readSummary(r, p)
	if r.has("publishing") {
		p.Publishing = r.boolValue()
	}
}

// draftTarget returns what a draft is decoded into.
func draftTarget(p *Post) any {
	return &struct {
		*Post
		Truncated  *bool `json:"truncated"`
		Publishing *bool `json:"publishing"`
	}{p, &p.Truncated, &p.Publishing}
}
