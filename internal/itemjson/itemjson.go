// Package itemjson encodes the items that Byline stores: here alone they get the version of their format, and keep the
// properties of later versions. Decoding ignores the version: an item without one was written before there were
// versions, and is of version 1.
package itemjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Version is the version of the format that this program writes, and the latest that it replaces.
const Version = 1

const versionName = "schemaVersion"

// ErrLater is the error of an item of a later version, which must not be replaced: its properties may have another
// meaning there. Patches of those that this version knows are allowed, and so is the deletion of the item.
var ErrLater = errors.New("the item was written by a later version of Byline, and is not replaced")

// Encode encodes a struct as a new item.
func Encode(item any) ([]byte, error) {
	b, err := json.Marshal(item)
	if err != nil {
		return nil, err
	}
	return appendProperty(b, versionName, fmt.Append(nil, Version)), nil
}

// EncodeOver encodes a struct as an item that replaces another, as read. It keeps the properties of the other that the
// struct does not have. ErrLater if the other is of a later version.
func EncodeOver(item any, other []byte) ([]byte, error) {
	b, err := Encode(item)
	if err != nil {
		return nil, err
	}
	var properties map[string]json.RawMessage
	if err := json.Unmarshal(other, &properties); err != nil {
		return nil, err
	}
	if isLater(properties[versionName]) {
		return nil, ErrLater
	}
	delete(properties, versionName)
	for _, f := range reflect.VisibleFields(reflect.Indirect(reflect.ValueOf(item)).Type()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		delete(properties, name)
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if !strings.HasPrefix(name, "_") { // those of Cosmos DB, such as _etag
			b = appendProperty(b, name, properties[name])
		}
	}
	return b, nil
}

// IsLater reports whether an item is of a later version.
func IsLater(item []byte) bool {
	var v struct {
		Version json.RawMessage `json:"schemaVersion"`
	}
	return json.Unmarshal(item, &v) == nil && isLater(v.Version)
}

// isLater is IsLater for the version of an item, nil if it has none. No earlier version wrote anything but a number.
func isLater(version json.RawMessage) bool {
	var v int
	return version != nil && (json.Unmarshal(version, &v) != nil || v > Version)
}

// appendProperty adds a property to an object that has others.
func appendProperty(object []byte, name string, value []byte) []byte {
	quoted, _ := json.Marshal(name) // cannot fail
	return fmt.Appendf(object[:len(object)-1], ",%s:%s}", quoted, value)
}
