package blog

import (
	"bytes"
	"errors"
	"io"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxPage is the largest page of any list.
const MaxPage = 100

// Format defines the fields that a list selects, and how a page of them is decoded.
type Format[T any] struct {
	Fields  string       // the SELECT clause
	Besides func(*T) int // bytes that a decoded item may hold besides its properties; nil: none
	fast    func(*fastReader, *T)
	into    func(*T) any // the target of the fallback; nil: the item itself

	// tombstone reports whether the fallback has read a tombstone with the type of what was deleted, as versions before
	// 0.2 wrote. It lacks what fast must read. nil: the list has no tombstones.
	tombstone func(*T) bool
}

// Decode decodes the items of a query response, without tombstones, each of which starts as a copy of defaults. It may
// leave item number limit undecoded, and omit all after it, if the list has no tombstones.
func (f Format[T]) Decode(body []byte, defaults T, limit int) (items []T, err error) {
	items, ok := fastItems(body, defaults, f.fast)
	if !ok {
		items, err = f.decodeAny(body, defaults, limit)
	}
	return items, err
}

// decodeAny is Decode for any JSON, the fallback of the fast path.
func (f Format[T]) decodeAny(body []byte, defaults T, limit int) (items []T, err error) {
	err = eachItem(body, func(d *jsontext.Decoder) error {
		if items = append(items, defaults); len(items) == limit && f.tombstone == nil {
			return errEnough
		}
		item := &items[len(items)-1]
		target := any(item)
		if f.into != nil {
			target = f.into(item)
		}
		if err := jsonv2.UnmarshalDecode(d, target); err != nil {
			return err
		}
		if f.tombstone != nil && f.tombstone(item) {
			items = items[:len(items)-1]
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return items, err
}

// errEnough ends eachItem early.
var errEnough = errors.New("enough")

var errNotPage = errors.New("not a page of a list")

// eachItem calls f with a decoder at each item of a page; f must consume the item.
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
