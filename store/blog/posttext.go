package blog

import "cmp"

// PostText is a text of posts and drafts that their authors write, in one line. Unlike the content, it is in every
// summary. What reads, writes and limits these texts follows from their rows in PostTexts.
type PostText struct {
	Field    string // of Post, and of the inputs of package store
	Name     string // of the property
	Input    string // its path in inputs, where a field of Post does not have it by itself; "": both have the Name
	Max      int    // characters
	Optional bool   // it may be "": then items do not have the property
	URL      bool   // the address of a web page
	Picture  bool   // the address of a picture
	Of       func(*Post) *string
}

// InputPath returns the path of the text in inputs, such as "coverImage.alt".
func (t PostText) InputPath() string { return cmp.Or(t.Input, t.Name) }

// postTextFields selects the texts in a list.
var postTextFields = func() (selected string) {
	for _, t := range PostTexts {
		selected += ", c." + t.Name
	}
	return selected
}()

// readPostTexts reads the texts that were selected by postTextFields.
func readPostTexts(r *fastReader, p *Post) {
	for i := range PostTexts {
		if t := &PostTexts[i]; !t.Optional {
			*t.Of(p) = r.text(t.Name)
		} else if r.has(t.Name) {
			*t.Of(p) = r.stringValue()
		}
	}
}

// readPostText reads a property of an item, and reports whether it is a text of PostTexts.
func readPostText(r *fastReader, p *Post, name string) bool {
	for i := range PostTexts {
		if t := &PostTexts[i]; t.Name == name {
			*t.Of(p) = r.stringValue()
			return true
		}
	}
	return false
}
