package blog

import (
	"fmt"
	"time"

	"byline/internal/cut"
)

// Date is a time as items store it: RFC 3339, UTC, exactly three digits of milliseconds, so that dates sort
// as strings.
type Date string

// DateLayout is the layout of Date for package time.
const DateLayout = "2006-01-02T15:04:05.000Z"

// NewDate returns t as a Date, truncated to milliseconds.
func NewDate(t time.Time) Date { return Date(t.UTC().Format(DateLayout)) }

// Time returns the date as a time; the zero time if it is not valid.
func (d Date) Time() time.Time {
	t, _ := time.Parse(DateLayout, string(d))
	return t
}

// UnmarshalJSON rejects dates in any other form, which would sort wrongly.
func (d *Date) UnmarshalJSON(b []byte) error {
	if len(b) != len(DateLayout)+2 || !ValidDate(string(b[1:len(b)-1])) {
		return fmt.Errorf("%s is not a date in the form %s", cut.Bytes(string(b), 40), DateLayout)
	}
	*d = Date(b[1 : len(b)-1])
	return nil
}

// ValidDate reports whether s is a valid Date.
func ValidDate(s string) bool {
	const form = "0000-00-00T00:00:00.000Z"
	if len(s) != len(form) {
		return false
	}
	for i := range len(form) {
		if d := s[i] - '0'; d != form[i]-'0' && (form[i] != '0' || d > 9) {
			return false
		}
	}
	if s[5:7] >= "01" && s[5:7] <= "12" && s[8:10] >= "01" && s[8:10] <= "28" && s[11:13] <= "23" && s[14:16] <= "59" &&
		s[17:19] <= "59" {
		return true
	}
	_, err := time.Parse(DateLayout, s) // checks the length of the month
	return err == nil
}
