package blog

// FastPosts returns the posts of a page, if the fast path reads it.
func FastPosts(page []byte) ([]Post, bool) { return fastItems(page, Post{}, readSummary) }
