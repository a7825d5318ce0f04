// Package storage opens Pebble for the engine. A write that fails does not make Pebble panic or block: from
// then on the files stay as a crash at that moment would leave them, Pebble's later writes go to memory, and
// the caller, who is told, must refuse further writes.
package storage
