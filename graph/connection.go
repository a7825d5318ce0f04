package graph

import (
	"byline/graph/model"
	"byline/store"
)

const (
	defaultFirst = 20
	maxFirst     = 100 // the store lists no more at a time
)

// pagingOf makes the arguments of a list the store's, which judges them. A null
// first is the default, an empty after the beginning.
func pagingOf(first *int32, after *string, order *store.Order) store.Paging {
	p := store.Paging{First: defaultFirst}
	if first != nil {
		p.First = int(*first)
	}
	if after != nil {
		p.After = *after
	}
	if order != nil {
		p.Order = *order
	}
	return p
}

func postConnection(page *store.Page[*store.Post]) *model.PostConnection {
	c := &model.PostConnection{Edges: make([]*model.PostEdge, len(page.Items)), PageInfo: pageInfo(page)}
	for i, post := range page.Items {
		c.Edges[i] = &model.PostEdge{Cursor: page.Cursor(i), Node: post}
	}
	return c
}

func commentConnection(page *store.Page[*store.Comment]) *model.CommentConnection {
	c := &model.CommentConnection{Edges: make([]*model.CommentEdge, len(page.Items)), PageInfo: pageInfo(page)}
	for i, comment := range page.Items {
		c.Edges[i] = &model.CommentEdge{Cursor: page.Cursor(i), Node: comment}
	}
	return c
}

func likeConnection(page *store.Page[*store.Like]) *model.LikeConnection {
	c := &model.LikeConnection{Edges: make([]*model.LikeEdge, len(page.Items)), PageInfo: pageInfo(page)}
	for i, like := range page.Items {
		c.Edges[i] = &model.LikeEdge{Cursor: page.Cursor(i), Node: like}
	}
	return c
}

func pageInfo[T any](page *store.Page[T]) *model.PageInfo {
	info := &model.PageInfo{HasNextPage: page.More}
	if n := len(page.Items); n > 0 {
		first, last := page.Cursor(0), page.Cursor(n-1)
		info.StartCursor, info.EndCursor = &first, &last
	}
	return info
}
