package store

import (
	"bytes"
	"errors"
	"io"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// format says which fields of an item a list selects, and how a page of them is decoded.
type format[T any] struct {
	fields string // of the SELECT clause
	fast   func(*plain, *T)
	into   func(*T) any // the target of the fallback; nil: the item itself
}

// The formats of the lists.
var (
	summaries = format[Post]{shortFields, plainShort, intoShort}
	comments  = format[Comment]{commentFields, plainComment, nil}
	likes     = format[Like]{likeFields, plainLike, nil}
)

// decode decodes the items of a query response, each of which starts as a copy of blank.
// Of item number most, if there are that many, only the existence counts.
func (f format[T]) decode(body []byte, blank T, most int) (items []T, err error) {
	items, ok := plainItems(body, blank, f.fast)
	if !ok {
		items, err = f.decodeAny(body, blank, most)
	}
	return items, err
}

// decodeAny is decode for any JSON, as the fallback of the fast path.
func (f format[T]) decodeAny(body []byte, blank T, most int) (items []T, err error) {
	err = eachItem(body, func(d *jsontext.Decoder) error {
		if items = append(items, blank); len(items) == most {
			return errEnough
		}
		item := &items[len(items)-1]
		if f.into != nil {
			return jsonv2.UnmarshalDecode(d, f.into(item))
		}
		return jsonv2.UnmarshalDecode(d, item)
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return items, err
}

// errEnough ends eachItem early.
var errEnough = errors.New("enough")

var errNotPage = errors.New("not a page of a list")

// eachItem calls f with a decoder that is at an item of a page, for all of them: f reads it.
func eachItem(body []byte, f func(*jsontext.Decoder) error) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(body))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return errors.Join(errNotPage, err)
	}
	found := false
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return err
		}
		if name.String() != "Documents" {
			if err := d.SkipValue(); err != nil {
				return err
			}
			continue
		}
		if t, err := d.ReadToken(); err != nil || t.Kind() != '[' {
			return errors.Join(errNotPage, err)
		}
		found = true
		for d.PeekKind() == '{' {
			if err := f(d); err != nil {
				return err
			}
		}
		if t, err := d.ReadToken(); err != nil || t.Kind() != ']' {
			return errors.Join(errNotPage, err)
		}
	}
	if t, err := d.ReadToken(); err != nil || t.Kind() != '}' || !found {
		return errors.Join(errNotPage, err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.Join(errNotPage, err)
	}
	return nil
}
