// Package layout is the format of an engine's data in Pebble: the keys of every kind of entry (keys.go), the records
// of items (record.go), their resource ids and ETags. It knows no request and reads no database.
//
// A Record is an item: a header and the client's JSON. Container.ReadRecord decodes it and completes the document by
// the system properties, which derive from the header. What a record says of its expiry, TTL decides. A Scratch has
// the buffers in which a request builds keys and values.
//
// A change of the format makes existing data directories unreadable.
package layout
