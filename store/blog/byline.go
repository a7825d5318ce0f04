package blog

// Byline is what a post, comment or like stores of the user who wrote it.
type Byline struct {
	ID       string
	Username string
}

// Byline returns the byline of what the user writes from now on.
func (u *User) Byline() Byline { return Byline{ID: u.ID, Username: u.Username} }
