package blog

// PostText is a text of posts and drafts that their authors write, in one line. Unlike the content, it is in every
// summary. What reads, writes and limits these texts follows from their rows in PostTexts.
type PostText struct {
	Field    string // of Post, and of the inputs of package store
	Name     string // of the property, and of the schema's fields
	Max      int    // characters
	Optional bool   // it may be "": then items do not have the property
	URL      bool   // the address of a web page
	Of       func(*Post) *string
}

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
