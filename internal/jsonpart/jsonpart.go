// Package jsonpart finds values in JSON text without copying them.
package jsonpart

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Part is where a value is in the text that json.Unmarshal decodes.
type Part struct{ from, to int64 }

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (p *Part) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	p.from = d.InputOffset() // what separates the value from the one before comes first
	err := d.SkipValue()
	p.to = d.InputOffset()
	return err
}

// Of returns the part of the text: nil if there is no such value. It shares the text's
// memory; what is appended to it does not.
func (p Part) Of(text []byte) []byte {
	if p.to == 0 {
		return nil
	}
	return slices.Clip(bytes.TrimLeft(text[p.from:p.to], ",: \t\r\n"))
}
