package query

import (
	"bytes"
	"strconv"
	"time"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/charge"
)

// AppendListStart appends the beginning of a list of resources.
func AppendListStart(dst []byte, name, rid string) []byte {
	dst = append(append(dst, `{"_rid":"`...), rid...)
	return append(append(append(dst, `","`...), name...), `":[`...)
}

// AppendListEnd completes a list of n resources that was started by AppendListStart.
func AppendListEnd(b []byte, n int) []byte {
	return append(strconv.AppendInt(append(b, `],"_count":`...), int64(n), 10), '}')
}

// List returns a list of resources.
func List(name, rid string, rows [][]byte) []byte {
	return AppendListEnd(append(AppendListStart(nil, name, rid), bytes.Join(rows, []byte{','})...), len(rows))
}

// Over runs the query over a list of resources that are not items: databases, containers or offers.
func (r *Request) Over(name, rid string, bodies [][]byte) (*Page, error) {
	b := r.bound
	if len(b.OrderBy()) > 0 || b.Ranks() || b.Aggregates() {
		return nil, apierror.BadRequest("A query over %s can only filter, project and limit.", name)
	}
	var rows [][]byte
	m := metrics{retrieved: len(bodies), took: time.Millisecond}
	item := b.Evaluator()
	for _, body := range bodies {
		m.loaded += len(body)
		item.Next(body)
		if ok, err := item.Matches(); err != nil {
			return nil, apierror.Query(err)
		} else if !ok {
			continue
		}
		row, ok, err := item.Project(nil)
		if err != nil {
			return nil, apierror.Query(err)
		}
		if ok {
			rows = append(rows, row)
		}
	}
	if offset, limit, ok := b.OffsetLimit(); ok {
		rows = rows[min(offset, len(rows)):]
		rows = rows[:min(limit, len(rows))]
	}
	if n, ok := b.Top(); ok {
		rows = rows[:min(n, len(rows))]
	}
	m.rows = len(rows)
	for _, row := range rows {
		m.output += len(row)
	}
	page := &Page{Body: List(name, rid, rows), Rows: len(rows), Charge: charge.QueryBase, Header: m.header(r.header)}
	return page, nil
}
