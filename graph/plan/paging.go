package plan

import (
	"context"
	"errors"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"byline/graph/fields"
	"byline/graph/model"
	"byline/store"
)

// Paging reads the arguments of a list field, as its resolver will get them.
func Paging(ctx context.Context, field *ast.Field) (store.Paging, error) {
	args := field.ArgumentMap(graphql.GetOperationContext(ctx).Variables)
	first, firstErr := optional(args["first"], graphql.UnmarshalInt32)
	after, afterErr := optional(args["after"], graphql.UnmarshalString)
	order, orderErr := optional(args["order"], func(v any) (store.Order, error) {
		s, err := graphql.UnmarshalString(v)
		return store.Order(s), err
	})
	if err := errors.Join(firstErr, afterErr, orderErr); err != nil {
		return store.Paging{}, err
	}
	return PagingOf(first, after, order), nil
}

func optional[T any](v any, unmarshal func(any) (T, error)) (*T, error) {
	if v == nil {
		return nil, nil
	}
	value, err := unmarshal(v)
	return &value, err
}

// PagingOf converts the arguments of a list field. The store validates them. A null first is the
// default page size, an empty after the start of the list.
func PagingOf(first *int32, after *string, order *store.Order) store.Paging {
	p := store.Paging{First: fields.DefaultPage}
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

// PageInfo returns the pageInfo of a page.
func PageInfo[T any](page *store.Page[T]) *model.PageInfo {
	info := &model.PageInfo{HasNextPage: page.More}
	if len(page.Items) > 0 {
		first := page.Cursor(0)
		info.StartCursor = &first
	}
	if end := page.End(); end != "" {
		info.EndCursor = &end
	}
	return info
}
