package store

import (
	"context"

	"byline/store/blog"
)

// Months returns the months that have posts, newest first: two point reads. The item of the timeline has the counts of
// all but the newest month, whose counter is read.
func (s *timelineStore) Months(ctx context.Context) (months []*blog.Month, err error) {
	const op = "list months"
	ctx = s.beginRead(ctx, Months)
	item, err := s.timelineItem(ctx, op, blog.AllPosts)
	if item == nil || err != nil {
		return nil, err
	}
	for _, month := range item.Newest() {
		posts := item.Months[month]
		if month == item.Uncopied() {
			if posts, err = s.counter(ctx, op, month); err != nil {
				return nil, err
			}
		}
		if n := count32(posts); n > 0 {
			months = append(months, &blog.Month{Month: month, PostCount: n})
		}
	}
	return months, nil
}

// Archive is the posts that were published in a month, newest first: one query of one partition, and one batch of
// reads. Invalid if the month is malformed.
func (s *timelineStore) Archive(ctx context.Context, month string, p Paging) (*Page[*blog.Post], error) {
	const op = "list posts of a month"
	if err := checkMonth(op, month); err != nil {
		return nil, err
	}
	t := timelinePage{base: s.base, op: op, timeline: blog.AllPosts, months: []string{month}}
	return t.read(s.beginRead(ctx, Archive), s.feed.Name()+"/"+blog.AllPosts.Partition(month), p)
}

// MonthCount returns the approximate number of the posts of a month: one point read.
func (s *timelineStore) MonthCount(ctx context.Context, month string) (int32, error) {
	const op = "count posts of a month"
	if err := checkMonth(op, month); err != nil {
		return 0, err
	}
	n, err := s.counter(s.beginRead(ctx, MonthCount), op, month)
	return count32(n), err
}

func checkMonth(op, month string) error {
	if !blog.ValidMonth(month) {
		return blog.Invalidf(op, "month", blog.ReasonFormat, "must be a month such as 2026-11")
	}
	return nil
}
